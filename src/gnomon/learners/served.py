"""A learner behind HTTP, as its client sees it: the loop runs here, the weights are trained there."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch

from gnomon import errors
from gnomon.errors import GnomonError, ResourceError
from gnomon.learners import batch as learning
from gnomon.learners.base import FloatArray, Model, Named
from gnomon.learners.batch import Batch
from gnomon.learners.coefficients import Coefficients
from gnomon.learners.wire import loads, written
from gnomon.models.weights import WeightsRef
from gnomon.objectives import Objective
from gnomon.stats import Stats

__all__ = ["SESSION", "ServedLearner", "files_of", "write_files"]

SESSION = "x-gnomon-session"
"""Header with the number that the server gave to this client's learner."""
AGAIN = "start the server again if it has stopped, then: gnomon resume RUN"


class ServedLearner:
    """The verbs of a learner that `gnomon serve-learner` runs.

    Args:
        url: of the server.
        token: that the server printed.
        settings: what decides a learner's numbers. The server begins a new learner if it has the same.
        objective: the run's own, which travels by name.
    Raises: ConfigError E048 for other settings; ResourceError E508 where the server cannot be reached or refuses.
    """

    def __init__(self, url: str, token: str, settings: Mapping[str, Any], objective: Named) -> None:
        self.url, self._token, self._objective, self._session = url, token, objective, ""
        self._session = str(self._call("begin", dict(settings)))

    def score(
        self, sequences: Sequence[learning.Sequence], temperature: float = 1.0, model: Model = Model.POLICY
    ) -> list[FloatArray]:
        found: list[FloatArray] = self._call("score", list(sequences), temperature, model)
        return found

    def forward_backward(self, batch: Batch, objective: Objective | Named | Coefficients) -> Stats:
        """Args: objective: an `Objective` must be the one of the run. Raises: ValueError for another one."""
        if isinstance(objective, Objective) and objective.name != self._objective.name:
            raise ValueError(f"the server computes {self._objective.name}, not {objective.name}")
        sent = self._objective if isinstance(objective, Objective) else objective
        found: Stats = self._call("forward_backward", batch, sent)
        return found

    def optim_step(self, lr: float) -> Stats:
        found: Stats = self._call("optim_step", lr)
        return found

    def save_state(self, folder: Path) -> None:
        write_files(folder, self._call("save_state"))

    def load_state(self, folder: Path) -> None:
        self._call("load_state", files_of(folder))

    def publish(self) -> WeightsRef:
        """The present version, whose weights are in this process's memory."""
        found: WeightsRef = self._call("publish")
        return found

    def _call(self, verb: str, *arguments: Any) -> Any:
        where, body = f"{self.url} ({verb})", written(arguments)
        headers = {"Authorization": f"Bearer {self._token}", SESSION: self._session}
        try:
            with closing(connected(self.url)) as connection:
                connection.request("POST", f"{urlsplit(self.url).path.rstrip('/')}/v1/{verb}", body, headers)
                answer = connection.getresponse()
                status, data = answer.status, answer.read()
            if status == 200:
                return loads(data)
        except (
            OSError,
            HTTPException,
            ValueError,
        ) as error:  # ValueError: an address, a token or an answer of no server.
            why = str(error) or type(error).__name__
            raise ResourceError(
                "E508", "the learner's server cannot be reached", where=where, why=why, fix=AGAIN
            ) from None
        raise refusal(status, data, where)


def connected(url: str) -> HTTPConnection:
    """A connection that notices when the other machine has gone. A verb may take any time.

    Raises: OSError; ValueError for what is no address.
    """
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    found = kind(parts.hostname or "", parts.port)
    found.connect()
    found.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 6)):
        found.sock.setsockopt(socket.IPPROTO_TCP, option, value)
    return found


def refusal(status: int, data: bytes, where: str) -> GnomonError:
    """The error that the server answered with."""
    try:
        facts = json.loads(data)
        kind = getattr(errors, facts.pop("kind"))
        found = kind(facts.pop("code"), facts.pop("what"), **facts)
        if isinstance(found, GnomonError):
            return found
    except (ValueError, KeyError, AttributeError, TypeError):
        pass
    why = f"HTTP {status}: {data[:300].decode('utf-8', 'replace')}"
    return ResourceError("E508", "the learner's server refused the request", where=where, why=why, fix=AGAIN)


def files_of(folder: Path) -> dict[str, torch.Tensor]:
    """The files of a folder by name, as bytes."""
    return {
        path.name: torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
        for path in sorted(folder.iterdir())
        if path.is_file() and path.stat().st_size
    }


def write_files(folder: Path, files: Mapping[str, torch.Tensor]) -> None:
    """Write files of other machines into a folder. Raises: ValueError for a name that leads out of it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if name != Path(name).name or name in ("", ".", ".."):
            raise ValueError(f"not the name of a file: {name!r}")
        (folder / name).write_bytes(content.numpy().tobytes())


def in_memory(weights: WeightsRef) -> WeightsRef:
    """The same version, with tensors in the place of a file."""
    return replace(weights, tensors=dict(weights.read()))
