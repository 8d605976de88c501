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
from gnomon.learners.batch import Batch, TokenSequence
from gnomon.learners.pulse import Pulse
from gnomon.models.weights import WeightsRef
from gnomon.objectives import Coefficients, Objective
from gnomon.stats import Stats
from gnomon.workers.serialise import pack_value

__all__ = ["RemoteLearner", "answer"]

VERBS = ("score", "forward_backward", "optim_step", "save_state", "load_state", "publish")
PATIENCE = 10.0
"""Seconds for the other processes after one has raised an error; then they wait for it and are ended."""
PING = 1.0
"""Seconds without an answer after which processes are asked for a sign of life."""
START = 300.0
"""Least seconds that processes may take to start without a sign of life: they import much."""
PARTED = ("gloo", "pair closure", "NCCL")
"""Parts of torch's messages where a process waited too long for another one, or lost it."""


class RemoteLearner:
    """The verbs of a learner, carried out by all its processes at once.

    Args:
        channels: to each process, which runs `answer`.
        pulse: asks them for signs of life, in the same order.
        why: what is known of a process that ended, for an error.
        end: ends all processes.
    """

    def __init__(
        self, channels: Sequence[Connection], pulse: Pulse, why: Callable[[], str], end: Callable[[], None]
    ) -> None:
        self._channels, self._pulse, self._why, self._end = list(channels), pulse, why, end

    def start(self, parts: bytes) -> None:
        """Have every process make its part of the learner. Args: parts: pickled.

        Raises: what a process raised; ResourceError E509 where one ends or hangs.
        """
        try:
            self._exchange("start", parts)
        except ResourceError as error:
            if error.code != "E509":
                raise
            what = "a process of the learner could not start"
            raise ResourceError("E509", what, why=error.why or error.what, fix="ranks=0") from error

    def score(
        self, sequences: Sequence[TokenSequence], temperature: float = 1.0, model: Model = Model.POLICY
    ) -> list[FloatArray]:
        logps: list[FloatArray] = self._call("score", sequences, temperature, model)
        return logps

    def forward_backward(self, batch: Batch, objective: Objective | Named | Coefficients) -> Stats:
        stats: Stats = self._call("forward_backward", batch, objective)
        return stats

    def optim_step(self, lr: float) -> Stats:
        stats: Stats = self._call("optim_step", lr)
        return stats

    def save_state(self, folder: Path) -> None:
        self._call("save_state", folder.absolute())

    def load_state(self, folder: Path) -> None:
        self._call("load_state", folder.absolute())

    def publish(self) -> WeightsRef:
        ref: WeightsRef = self._call("publish")
        return ref

    def close(self) -> None:
        """End the processes."""
        for channel in self._channels:
            channel.close()
        self._channels = []
        self._pulse.close()
        self._end()

    def _call(self, verb: str, *arguments: Any) -> Any:
        return self._exchange(verb, pack_value((verb, arguments)))

    def _exchange(self, verb: str, message: bytes) -> Any:
        """What the first process answers to a message, once all have.

        Raises: what a process raised; ResourceError E509 where one has ended, hangs or has lost the others.
        """
        try:
            for channel in self._channels:
                channel.send_bytes(message)
            answers, lost = self._answers(verb)
        except BlockingIOError as error:
            raise self._hung(verb, "a process did not take its message") from error
        except OSError as error:
            answers, lost = {}, error
        failed = [value for kind, value in answers.values() if kind == "raised"]
        parted = [error for error in failed if isinstance(error, RuntimeError) and any(p in str(error) for p in PARTED)]
        if len(parted) == len(failed) and (lost or not self._channels):
            raise self._death(verb) from lost
        if parted:
            raise self._hung(verb, str(parted[0]).partition("\n")[0]) from parted[0]
        if len(answers) < len(self._channels):
            self.close()
        if failed:
            raise failed[0]
        return answers[0][1]

    def _answers(self, verb: str) -> tuple[dict[int, tuple[str, Any]], OSError | EOFError | None]:
        """Answers by rank: of all processes, unless one raised an error and others have not for `PATIENCE`.

        Returns: also the error of a process that has ended; what others raised at once, which may be why, is read.
        Raises: ResourceError E509 where a process gives no sign of life.
        """
        answers: dict[int, tuple[str, Any]] = {}
        lost: OSError | EOFError | None = None
        last: float | None = None
        while not lost and len(answers) < len(self._channels) and (last is None or monotonic() < last):
            missing = [rank for rank in range(len(self._channels)) if rank not in answers]
            ready = wait([self._channels[rank] for rank in missing], PING)
            for rank in [rank for rank in missing if self._channels[rank] in ready]:
                try:
                    answers[rank] = pickle.loads(self._channels[rank].recv_bytes())
                except (EOFError, OSError) as error:
                    lost = error
            if last is None and any(kind == "raised" for kind, _ in answers.values()):
                last = monotonic() + PATIENCE
            hung = None if ready else self._silent(missing, START if verb == "start" else 0.0)
            if hung is not None:
                raise self._hung(verb, f"rank {hung} gave no sign of life")
        return answers, lost

    def _silent(self, places: Sequence[int], least: float) -> int | None:
        """A process that hangs; none where one has ended, which its channel will say. Args: least: seconds of it."""
        try:
            return self._pulse.hung(places, PING, least)
        except (EOFError, OSError):
            return None

    def _hung(self, verb: str, why: str) -> ResourceError:
        self.close()
        return ResourceError(
            "E509",
            "a process of the learner hangs",
            where=verb,
            why=f"{why} (launch.seconds={self._pulse.limit:g})",
            fix="gnomon resume RUN",
        )

    def _death(self, verb: str) -> ResourceError:
        why = self._why()
        self.close()
        return ResourceError(
            "E509",
            "a process of the learner ended unexpectedly",
            where=verb,
            why=why,
            fix="gnomon resume RUN   # if the process was killed for lack of memory, free some first",
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
            reply = "returned", getattr(learner, verb)(*arguments)
        except Exception as error:  # It is the caller's to handle.
            reply = "raised", error
        try:
            channel.send_bytes(pickle.dumps(reply))
        except OSError:
            return
