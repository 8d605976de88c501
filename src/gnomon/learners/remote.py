"""A learner in other processes: its verbs as messages."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from time import monotonic
from typing import Any

from gnomon.errors import ResourceError
from gnomon.learners.base import FloatArray, Learner, Model, Named
from gnomon.learners.batch import Batch
from gnomon.learners.batch import Sequence as Tokens
from gnomon.learners.coefficients import Coefficients
from gnomon.models.weights import WeightsRef
from gnomon.objectives import Objective
from gnomon.stats import Stats
from gnomon.workers.serialise import packed

__all__ = ["RemoteLearner", "answer"]

VERBS = ("score", "forward_backward", "optim_step", "save_state", "load_state", "publish")
PATIENCE = 10.0
"""Seconds for the other processes after one has raised an error; then they wait for it and are ended."""


class RemoteLearner:
    """The verbs of a learner, carried out by all its processes at once.

    Args:
        channels: to each process, which runs `answer`.
        why: what is known of a process that ended, for an error.
        end: ends all processes.
    """

    def __init__(self, channels: Sequence[Connection], why: Callable[[], str], end: Callable[[], None]) -> None:
        self._channels, self._why, self._end = list(channels), why, end

    def score(
        self, sequences: Sequence[Tokens], temperature: float = 1.0, model: Model = Model.POLICY
    ) -> list[FloatArray]:
        found: list[FloatArray] = self._call("score", sequences, temperature, model)
        return found

    def forward_backward(self, batch: Batch, objective: Objective | Named | Coefficients) -> Stats:
        found: Stats = self._call("forward_backward", batch, objective)
        return found

    def optim_step(self, lr: float) -> Stats:
        found: Stats = self._call("optim_step", lr)
        return found

    def save_state(self, folder: Path) -> None:
        self._call("save_state", folder.absolute())

    def load_state(self, folder: Path) -> None:
        self._call("load_state", folder.absolute())

    def publish(self) -> WeightsRef:
        found: WeightsRef = self._call("publish")
        return found

    def close(self) -> None:
        """End the processes."""
        for channel in self._channels:
            channel.close()
        self._channels = []
        self._end()

    def _call(self, verb: str, *arguments: Any) -> Any:
        """What the first process answers, once all have.

        Raises: what a process raised; ResourceError E509 where one has ended.
        """
        message = packed((verb, arguments))
        answers: dict[int, tuple[str, Any]] = {}
        try:
            for channel in self._channels:
                channel.send_bytes(message)
            last: float | None = None
            while len(answers) < len(self._channels):
                open_ones = [channel for place, channel in enumerate(self._channels) if place not in answers]
                ready = wait(open_ones, None if last is None else max(0.0, last - monotonic()))
                if not ready:
                    break
                for place in [place for place, channel in enumerate(self._channels) if channel in ready]:
                    answers[place] = pickle.loads(self._channels[place].recv_bytes())
                    if answers[place][0] == "raised" and last is None:
                        last = monotonic() + PATIENCE
        except (EOFError, OSError) as error:
            raise self._died(verb) from error
        failed = [value for kind, value in answers.values() if kind == "raised"]
        if len(answers) < len(self._channels):
            self.close()
        if failed:
            raise failed[0]
        if not self._channels:
            raise self._died(verb)
        return answers[0][1]

    def _died(self, verb: str) -> ResourceError:
        why = self._why()
        self.close()
        return ResourceError(
            "E509",
            "a process of the learner ended unexpectedly",
            where=verb,
            why=why,
            fix="gnomon resume RUN; if the process was killed for lack of memory, free some first",
        )


def answer(learner: Learner, channel: Connection) -> None:
    """Carry out verbs until the channel closes. An error is sent back, and the next verb is waited for."""
    while True:
        try:
            verb, arguments = pickle.loads(channel.recv_bytes())
        except (EOFError, OSError):
            return
        assert verb in VERBS, verb
        try:
            found = "returned", getattr(learner, verb)(*arguments)
        except Exception as error:  # It is the caller's to handle.
            found = "raised", error
        try:
            channel.send_bytes(pickle.dumps(found))
        except OSError:
            return
