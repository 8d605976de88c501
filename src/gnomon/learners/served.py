"""A learner behind HTTP, as its client sees it: the loop runs here, the weights are trained there."""

from __future__ import annotations

import json
import math
import select
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gnomon import errors
from gnomon.errors import GnomonError, ResourceError
from gnomon.learners import batch as learning
from gnomon.learners.base import FloatArray, Model, Named
from gnomon.learners.batch import Batch
from gnomon.learners.verbs import files_of, write_files
from gnomon.learners.wire import dumps, loads
from gnomon.models.weights import WeightsRef
from gnomon.objectives import Coefficients, Objective
from gnomon.repeats import Repeats
from gnomon.stats import Stats

__all__ = ["AGAIN", "ALIVE", "CALL", "SESSION", "ServedLearner"]

SESSION = "x-gnomon-session"
"""Header with the number that the server gave to this client's learner."""
CALL = "x-gnomon-call"
"""Header with the number of a call. The server carries out each number once, and sends its answer as often as asked."""
ALIVE = "alive"
"""Verb that is answered at once: whether a call is being carried out."""
BEAT = 5.0
"""Seconds without an answer after which the server is asked whether it still works on the call."""
PATIENCE = 60.0
"""Seconds without a sign of life of the server after which a call fails."""
PAUSE = 0.5
"""Seconds before a call is sent again."""
AGAIN = "start the server again if it has stopped, then: gnomon resume RUN"


class ServedLearner:
    """The verbs of a learner that `gnomon serve-learner` runs.

    Args:
        url: of the server.
        token: that the server printed.
        settings: all that the learner's numbers depend on. The server creates a new learner if its own are equal.
        objective: that of the run, which is sent by name.
    Raises: ConfigError E048 if the server has other settings; ResourceError E508 where the server cannot be
        reached or refuses.
    """

    def __init__(self, url: str, token: str, settings: Mapping[str, Any], objective: Named) -> None:
        self.url, self._token, self._objective, self._session = url, token, objective, ""
        self._number, self._repeats = 0, Repeats(math.inf, PATIENCE)
        """Of the last call, and its failures."""
        self._session = str(self._call("begin", dict(settings)))

    def score(
        self, sequences: Sequence[learning.TokenSequence], temperature: float = 1.0, model: Model = Model.POLICY
    ) -> list[FloatArray]:
        logps: list[FloatArray] = self._call("score", list(sequences), temperature, model)
        return logps

    def forward_backward(self, batch: Batch, objective: Objective | Named | Coefficients) -> Stats:
        """Args: objective: an `Objective` must be the one of the run. Raises: ValueError for another one."""
        if isinstance(objective, Objective) and objective.name != self._objective.name:
            raise ValueError(f"the server computes {self._objective.name}, not {objective.name}")
        sent = self._objective if isinstance(objective, Objective) else objective
        stats: Stats = self._call("forward_backward", batch, sent)
        return stats

    def optim_step(self, lr: float) -> Stats:
        stats: Stats = self._call("optim_step", lr)
        return stats

    def save_state(self, folder: Path) -> None:
        write_files(folder, self._call("save_state"))

    def load_state(self, folder: Path) -> None:
        self._call("load_state", files_of(folder))

    def publish(self) -> WeightsRef:
        """The present version, whose weights are in this process's memory."""
        ref: WeightsRef = self._call("publish")
        return ref

    def _call(self, verb: str, *arguments: Any) -> Any:
        """What the server answers. A call whose request or answer was lost is sent again, under the same number."""
        self._number += 1
        self._repeats.on_answer()
        where, body = f"{self.url} ({verb})", dumps(arguments)
        while True:
            try:
                status, data = self._exchange(verb, body)
                if status == 200:
                    return loads(data)
                break
            except (OSError, HTTPException, ValueError) as error:  # ValueError: what is no address, token or server.
                lost = isinstance(error, OSError | HTTPException) and not isinstance(error, ConnectionRefusedError)
                what, why = "the learner's server cannot be reached", str(error) or type(error).__name__
                if not (lost and self._session and self._repeats.another(why)):
                    raise ResourceError("E508", what, where=where, why=why, fix=AGAIN) from None
                time.sleep(PAUSE)
        raise refusal(status, data, where)

    def _exchange(self, verb: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of one request. Raises: OSError, HTTPException where it was lost, or nothing answers."""
        with closing(self._send(verb, body)) as connection:
            while verb != ALIVE and not select.select([connection.sock], [], [], BEAT)[0]:
                status, data = self._exchange(ALIVE, dumps(()))
                if status != 200 or not loads(data):
                    raise ConnectionError("the server does not have the request")
                self._repeats.on_answer()
            answer = connection.getresponse()
            return answer.status, answer.read()

    def _send(self, verb: str, body: bytes) -> HTTPConnection:
        """A connection on which a request was sent. Raises: OSError; ValueError for what is no address."""
        parts = urlsplit(self.url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=2 * BEAT)
        headers = {"Authorization": f"Bearer {self._token}", SESSION: self._session, CALL: str(self._number)}
        try:
            connection.connect()
            connection.request("POST", f"{parts.path.rstrip('/')}/v1/{verb}", body, headers)
        except BaseException:
            connection.close()
            raise
        return connection


def refusal(status: int, data: bytes, where: str) -> GnomonError:
    """The error that the server answered with."""
    try:
        facts = json.loads(data)
        kind = getattr(errors, facts.pop("kind"))
        error = kind(facts.pop("code"), facts.pop("what"), **facts)
        if isinstance(error, GnomonError):
            return error
    except (ValueError, KeyError, AttributeError, TypeError):
        pass
    why = f"HTTP {status}: {data[:300].decode('utf-8', 'replace')}"
    return ResourceError("E508", "the learner's server refused the request", where=where, why=why, fix=AGAIN)
