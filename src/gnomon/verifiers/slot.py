"""The verifier protocol, and its most common form: one answer slot and a check of its text."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from gnomon.types import Part, Status, Task, Verdict
from gnomon.verifiers.extract import Extraction, Strictness, extract
from gnomon.verifiers.prices import Price

__all__ = [
    "Answered", "Importing", "Malformed", "NoScore", "Rejected", "Several", "Slot", "Verifier", "require_shallow",
]  # fmt: skip


HAIR = 1e-6
"""Largest distance of a share from 0 to 1 that rounding can explain, as in float32."""


MAX_DEPTH = 128
"""Largest nesting depth of a prompt and of a task's answer. Below, values can be printed, compared and sent."""


class Malformed(Exception):
    """The text is not an answer of the required kind. The message gives the reason."""


class Rejected(Exception):
    """The answer breaks a rule of the task. The message names the rule."""


class NoScore(ValueError):
    """A function returned a value that is not a score. The message tells its author what to return.

    Args: reward: the value, if it is a number outside `reward_range`.
    """

    def __init__(self, message: str, reward: float = math.nan) -> None:
        super().__init__(message)
        self.reward = reward


class Several(Exception):
    """The text gives more than one answer where one is required."""


@runtime_checkable
class Verifier(Protocol):
    """Judges replies. `verify` is a pure function of task and reply; the object is frozen and pickles.

    An exception is a failure of the verifier, never of the policy.
    """

    @property
    def reward_range(self) -> tuple[float, float]:
        """Lowest and highest reward that any reply can earn. A correct answer earns the highest."""
        ...

    def verify(self, task: Task, reply: str) -> Verdict: ...


@runtime_checkable
class Importing(Protocol):
    """A verifier that lists the heavy modules it imports. A pool imports them once, before it forks workers.

    A module that is not listed is imported in each worker's first verdict, and counts against its time limit.
    """

    @property
    def imports(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, kw_only=True)
class Slot:
    """The place of the answer in a reply, and the rewards of a readable and of a correct answer.

    A reward is the sum of two named parts: `format` for a readable answer, `correct` for a correct one. With
    `gate = "correct"` the part `format` pays only if the answer is correct.
    """

    strictness: Strictness = Strictness.TRIMMED
    correct: float = 1.0
    format: float = 0.1
    gate: str | None = None
    imports: ClassVar[tuple[str, ...]] = ()
    """`Importing.imports`; none by default."""

    def __post_init__(self) -> None:
        # A recipe gives the strictness as text.
        object.__setattr__(self, "strictness", Strictness(self.strictness))
        if not (math.isfinite(self.correct) and math.isfinite(self.format)):
            raise ValueError(f"correct is {self.correct} and format {self.format}; they must be finite")
        if self.gate not in (None, "correct"):
            raise ValueError(f"gate is {self.gate!r}; it must be None or 'correct'")

    @property
    def reward_range(self) -> tuple[float, float]:
        rewards = [self.verdict(status).reward for status in (Status.NO_ANSWER, Status.WRONG, Status.CORRECT)]
        return min(rewards), max(rewards)

    @property
    def prices(self) -> tuple[Price, ...]:
        """The price of every part. A subclass that adds a part to its verdicts adds its price here."""
        right = Price(name="correct", weight=self.correct)
        return right, Price(name="format", weight=self.format, gate=self.gate)

    def extract(self, reply: str) -> Extraction:
        """The slot of a reply; by default the text between `<answer>` and `</answer>`."""
        return extract(reply, self.strictness)

    def judge(self, reply: str, check: Callable[[str], float]) -> Verdict:
        """The verdict on a whole reply: find the slot, read it, check it.

        Args: check: of the slot's text; the share of `correct` it earns, from 0 to 1, where only 1 is right. It
            raises `Malformed`, `Rejected` or `Several` for a text that earns nothing.
        Raises: NoScore if `check` returns anything but a number from 0 to 1.
        """
        slot = self.extract(reply)
        if slot.text is None:
            assert slot.status is not None
            return self.verdict(slot.status, span=slot.span, detail=slot.detail)
        try:
            share = check(slot.text)
        except Malformed as problem:
            return self.verdict(Status.MALFORMED, extracted=slot.text, span=slot.span, detail=str(problem))
        except Rejected as problem:
            return self.verdict(Status.REJECTED, extracted=slot.text, span=slot.span, detail=str(problem))
        except Several as problem:
            return self.verdict(Status.SEVERAL, extracted=slot.text, span=slot.span, detail=str(problem))
        share = share_of(share)
        status = Status.CORRECT if share == 1 else Status.WRONG
        return self.verdict(status, share=share, extracted=slot.text, span=slot.span)

    def verdict(
        self,
        status: Status,
        *,
        share: float | None = None,
        extracted: str | None = None,
        span: tuple[int, int] | None = None,
        detail: str = "",
    ) -> Verdict:
        """A verdict with the parts of this form. Args: share: fraction of `correct` that is earned; 1 if correct."""
        earned = float(status is Status.CORRECT) if share is None else share
        readable = status in (Status.CORRECT, Status.WRONG)
        parts = (
            Part(name="correct", value=earned, weight=self.correct),
            Part(name="format", value=float(readable), weight=self.format, gate=self.gate),
        )
        return Verdict(status=status, parts=parts, extracted=extracted, span=span, detail=detail)


def share_of(value: object) -> float:
    """Convert a boolean or a number from 0 to 1, also of numpy or torch, to a float. Raises: NoScore."""
    hint = "; did a branch end without `return`?" if value is None else ""
    try:
        share = math.nan if value is None or isinstance(value, str | bytes) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        share = math.nan
    if not -HAIR <= share <= 1 + HAIR:
        if math.isfinite(share):
            hint = f"; for a larger reward, set the option correct={share:g}" if share > 1 else ""
        raise NoScore(f"check returned {value!r:.100}; it must return True, False or a number from 0 to 1{hint}")
    return min(max(share, 0.0), 1.0)


def require_shallow(value: Any, name: str = "the task's own answer") -> None:
    """Raises: ValueError if a value has lists or mappings that are nested too deep. Args: name: for the error."""
    level, depth = [value], 0
    while level := [value for value in level if isinstance(value, list | tuple | dict)]:
        if (depth := depth + 1) > MAX_DEPTH:
            raise ValueError(f"{name} is nested over {MAX_DEPTH} deep")
        level = [part for value in level for part in (value.values() if isinstance(value, dict) else value)]


@dataclass(frozen=True, kw_only=True)
class Answered(Slot, ABC):
    """A verifier that compares the answer in the slot with the task's answer."""

    format: float = 0.0

    @abstractmethod
    def accepts(self, answer: str, gold: Any) -> float:
        """The fraction of the reward that an answer earns; 1 or True is correct.

        Args: answer: the slot's text; gold: the task's answer.
        Raises: Malformed if it is not an answer of the required kind; Rejected if it breaks a rule; Several if it is
            more than one answer.
        """

    def require_gold(self, gold: Any) -> None:
        """See that a task's answer can be read, before a run. By default, judge it as an answer of its own task.

        Raises: ValueError, or any exception of `accepts` that is not about the answer.
        """
        with suppress(Malformed, Rejected, Several):
            self.accepts(self.correct_text(gold), gold)

    def correct_text(self, gold: Any) -> str:
        """The task's answer as text for the slot; of several correct ones the first."""
        return str(gold[0] if isinstance(gold, list | tuple) and gold else gold)

    def verify(self, task: Task, reply: str) -> Verdict:
        require_shallow(task.answer)
        return self.judge(reply, lambda answer: self.accepts(answer, task.answer))
