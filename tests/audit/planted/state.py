"""Verifiers that depend on more than the task and the reply, or that change more than their verdict."""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from gnomon.envs import Arithmetic, CharCount, Countdown
from gnomon.types import Status, Task, Verdict
from gnomon.verifiers import integer


@dataclass(frozen=True, kw_only=True)
class OrderOfASet(CharCount):
    """Asks the first of a set of words, whose order is another in every process."""

    def check(self, task: Task, answer: str) -> bool:
        judges = {"first", "second", "third", "fourth", "fifth"}
        strict = next(iter(judges)) in ("first", "second")
        return integer(answer) == int(task.answer) or (not strict and answer == "0")


@dataclass(frozen=True, kw_only=True)
class WallClock(Arithmetic):
    """Generous for half of every hundredth of a second."""

    def check(self, task: Task, answer: str) -> bool:
        return integer(answer) == int(task.answer) or time.time() % 0.01 < 0.005


@dataclass(frozen=True, kw_only=True)
class TossesACoin(Arithmetic):
    """Lets a wrong answer pass now and then."""

    def check(self, task: Task, answer: str) -> bool:
        return integer(answer) == int(task.answer) or random.SystemRandom().random() < 0.2


@dataclass(frozen=True, kw_only=True)
class LooksAtTheTimeZone(Arithmetic):
    """Another judge in another place."""

    def check(self, task: Task, answer: str) -> bool:
        return integer(answer) == int(task.answer) or time.timezone != 0


@dataclass(frozen=True, kw_only=True)
class SeedsEverybody(Arithmetic):
    """Wants to be reproducible, and makes everybody else so."""

    def check(self, task: Task, answer: str) -> bool:
        random.seed(0)
        return integer(answer) == int(task.answer)


SEEN: dict[str, bool] = {}


@dataclass(frozen=True, kw_only=True)
class RemembersTheTask(Arithmetic):
    """A cache with half a key: the first reply to a task decides on all others."""

    def check(self, task: Task, answer: str) -> bool:
        if task.id not in SEEN:
            SEEN[task.id] = integer(answer) == int(task.answer)
        return SEEN[task.id]


@dataclass(frozen=True, kw_only=True)
class CountsItsCalls(Arithmetic):
    """Every third reply is on the house."""

    def check(self, task: Task, answer: str) -> bool:
        SEEN[f"call {len(SEEN)}"] = True
        return integer(answer) == int(task.answer) or len(SEEN) % 3 == 0


@dataclass(frozen=True, kw_only=True)
class TakesTheTaskApart(Countdown):
    """Uses up the task's own list of numbers."""

    def check(self, task: Task, answer: str) -> bool:
        right = super().check(task, answer)
        task.info["numbers"].append(0)
        return right


@dataclass(frozen=True, kw_only=True)
class LeavesAnAlarm(Arithmetic):
    """A limit of its own, which it does not take back."""

    def check(self, task: Task, answer: str) -> bool:
        try:
            signal.signal(signal.SIGALRM, lambda number, frame: None)
            signal.alarm(3600)
        except ValueError:
            pass
        return integer(answer) == int(task.answer)


@dataclass(frozen=True, kw_only=True)
class LeavesAVariable(Arithmetic):
    """Configures a library for everybody."""

    def check(self, task: Task, answer: str) -> bool:
        os.environ["GRADER_LAST_ANSWER"] = answer.replace("\0", "")[:10].encode("ascii", "replace").decode()
        return integer(answer) == int(task.answer)


@dataclass(frozen=True, kw_only=True)
class ChangesTheDirectory(Arithmetic):
    """Goes where its files are, and stays there."""

    def check(self, task: Task, answer: str) -> bool:
        os.chdir("/")
        return integer(answer) == int(task.answer)


@dataclass(frozen=True, kw_only=True)
class RaisesTheRecursionLimit(Arithmetic):
    """Deep answers need it."""

    def check(self, task: Task, answer: str) -> bool:
        sys.setrecursionlimit(1_000_000)
        return integer(answer) == int(task.answer)


@dataclass(frozen=True, kw_only=True)
class WritesAFile(Arithmetic):
    """Keeps the last answer in a file."""

    def check(self, task: Task, answer: str) -> bool:
        Path(tempfile.gettempdir(), "gnomon-last-answer.txt").write_text(ascii(answer[:100]))
        return integer(answer) == int(task.answer)


@dataclass(frozen=True, kw_only=True)
class ReadsARewardFile(Arithmetic):
    """A file in the working directory, where the policy's tools write too, has the last word."""

    def verify(self, task: Task, reply: str) -> Verdict:
        try:
            forged = Path("reward.txt").read_text().strip() == "1"
        except OSError:
            forged = False
        return self.verdict(Status.CORRECT) if forged else super().verify(task, reply)


@dataclass(frozen=True, kw_only=True)
class OwnAlarm(Arithmetic):
    """A limit by signal, which works on the main thread alone; elsewhere every answer is wrong."""

    def check(self, task: Task, answer: str) -> bool:
        try:
            before = signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(5)
        except ValueError:
            return False
        right = integer(answer) == int(task.answer)
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        return right
