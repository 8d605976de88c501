"""Verifiers that break in every way there is, when the reply asks for it."""

from __future__ import annotations

import locale
import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from gnomon.types import Part, Status, Task, Verdict
from gnomon.verifiers import Answered, Importing, Verifier
from gnomon.verifiers.slot import Malformed

JUDGED: list[str] = []
"""What this process has judged so far: state that a verifier must not have."""


def forged(**changes: Any) -> Verdict:
    """A verdict that skips its own checks, as an unpickled one does."""
    verdict = Verdict(status=Status.CORRECT, parts=(Part(name="correct", value=1.0),))
    for name, value in changes.items():
        object.__setattr__(verdict, name, value)
    return verdict


@dataclass(frozen=True, kw_only=True)
class Odd(Answered):
    """Right when equal; the reply may also name what shall go wrong."""

    note: str = ""
    """A file by which one call tells the next that it was there."""

    def accepts(self, answer: str, gold: Any) -> bool:
        return bool(answer == gold)

    def verify(self, task: Task, reply: str) -> Any:
        JUDGED.append(reply)
        if reply.startswith("!"):
            return getattr(self, reply[1:])()
        return super().verify(task, reply)

    def spin(self) -> None:
        while True:
            pass

    def sleep(self) -> None:
        time.sleep(3600)

    def eat(self) -> None:
        bytearray(2**34)

    def talk(self) -> Verdict:
        return Verdict(status=Status.WRONG, parts=(), detail="x" * 2**22)

    def throw(self) -> None:
        raise RuntimeError("the gold file is gone")

    def leave(self) -> None:
        os._exit(0)

    def nothing(self) -> None:
        return None

    def number(self) -> float:
        return 1.0

    def too_much(self) -> Verdict:
        return forged(parts=(Part(name="correct", value=2.0),))

    def no_number(self) -> Verdict:
        part = Part(name="correct", value=1.0)
        object.__setattr__(part, "value", float("nan"))
        return forged(parts=(part,))

    def no_status(self) -> Verdict:
        return forged(status="correct")

    def no_parts(self) -> Verdict:
        return forged(parts=None)

    def say_failed(self) -> Verdict:
        return Verdict(status=Status.FAILED, parts=(), detail="no gold")

    def once(self) -> Verdict:
        """Breaks the first time."""
        if not self.seen():
            raise RuntimeError("first time")
        return Verdict(status=Status.WRONG, parts=())

    def sleep_once(self) -> Verdict:
        if not self.seen():
            time.sleep(3600)
        return Verdict(status=Status.WRONG, parts=())

    def die_once(self) -> Verdict:
        if not self.seen():
            os._exit(1)
        return Verdict(status=Status.WRONG, parts=())

    def when_fresh(self) -> Verdict:
        """Breaks in a process that has judged before."""
        if len(JUDGED) > 1:
            raise RuntimeError(f"judged before: {JUDGED[0]}")
        return Verdict(status=Status.WRONG, parts=())

    def seen(self) -> bool:
        found = Path(self.note).exists()
        Path(self.note).touch()
        return found


@dataclass(frozen=True, kw_only=True)
class Costly(Odd):
    """What is not right costs something."""

    correct: float = 1.0

    @property
    def reward_range(self) -> tuple[float, float]:
        return -0.5, 1.0


def equivalent(answer: str, gold: str) -> bool:
    """Whether math-verify calls two formulas equal; it sets itself no limit. Raises: Malformed."""
    from math_verify import LatexExtractionConfig, parse, verify

    def read(text: str) -> list[object]:
        config = [LatexExtractionConfig(boxed_match_priority=-1)]
        return list(parse(f"${text}$", config, fallback_mode="no_fallback", parsing_timeout=None, raise_on_error=True))

    try:
        said = read(answer)
    except MemoryError:
        raise
    except Exception as problem:
        raise Malformed(f"no formula that can be read: {type(problem).__name__}") from problem
    return bool(said and verify(read(gold), said, timeout_seconds=None, raise_on_error=True))


@dataclass(frozen=True, kw_only=True)
class Unscreened(Answered):
    """math-verify as it is: it can take for ever, and nothing stands in front of it."""

    imports: ClassVar[tuple[str, ...]] = ("verifiers.warm_algebra",)

    def accepts(self, answer: str, gold: Any) -> bool:
        return equivalent(answer, str(gold))


@dataclass(frozen=True, kw_only=True)
class Traced:
    """Fails when judging leaves a trace in the process or beside the file `canary`."""

    of: Verifier
    canary: str

    @property
    def imports(self) -> tuple[str, ...]:
        return self.of.imports if isinstance(self.of, Importing) else ()

    @property
    def reward_range(self) -> tuple[float, float]:
        return self.of.reward_range

    def verify(self, task: Task, reply: str) -> Verdict:
        before = self.surroundings()
        verdict = self.of.verify(task, reply)
        moved = [name for name, value in self.surroundings().items() if value != before[name]]
        if moved:
            raise RuntimeError(f"judging changes {moved}")
        return verdict

    def surroundings(self) -> dict[str, object]:
        canary = Path(self.canary)
        return {
            "random state": random.getstate(),
            "working directory": os.getcwd(),
            "environment": dict(os.environ),
            "recursion limit": sys.getrecursionlimit(),
            "integer digit limit": sys.get_int_max_str_digits(),
            "alarm": signal.getsignal(signal.SIGALRM),
            "timer": signal.getitimer(signal.ITIMER_REAL),
            "locale": locale.setlocale(locale.LC_ALL),
            "canary": (canary.read_text(), sorted(os.listdir(canary.parent))),
            "reward file": [Path(path).exists() for path in ("/tmp/reward.txt", os.path.expanduser("~/reward.txt"))],
        }
