"""Base class of verifiers that call a reward function of another library. Invalid scores are errors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

from gnomon.errors import VerifierError
from gnomon.integrations.rewards.load import load
from gnomon.types import Part, Status, Task, Verdict

__all__ = ["Foreign", "Function", "called", "label", "number"]

Function = str | Callable[..., Any]
"""A function, or its name: `package.module:function` or `path/file.py:function`."""
SLACK = 1e-9
"""Tolerance below the top reward, because weights are summed in floating point."""


@dataclass(frozen=True, kw_only=True)
class Foreign(ABC):
    """Judges by an external function. A reward of `right` or more is correct; a lower one is wrong but is still paid.

    A score that is not a finite number in the declared range is a failure of the function and raises. The function gets
    the task itself and not a copy, so that an audit can detect changes to it.
    """

    low: float = 0.0
    """Lowest reward that any reply can earn."""
    top: float = 1.0
    """Highest reward that any reply can earn."""
    right: float | None = None
    """Smallest reward of a correct reply; by default `top`."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.top) and self.low < self.top):
            raise ValueError(f"low is {self.low} and top is {self.top}; low must be below top")
        if self.right is not None and not self.low < self.right <= self.top:
            raise ValueError(f"right is {self.right}; it must be above low ({self.low}) and at most top ({self.top})")

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickling constructs it again, so that its import ends before the first reply is judged.
        return again, (type(self), {field.name: getattr(self, field.name) for field in fields(self)})

    @property
    def reward_range(self) -> tuple[float, float]:
        return self.low, self.top

    @abstractmethod
    def parts(self, task: Task, reply: str) -> tuple[Part, ...]:
        """The named parts of the reward of a reply."""

    def verify(self, task: Task, reply: str) -> Verdict:
        """Judge a reply. Raises: VerifierError E132 for a score that is not a number, E133 outside `low` to `top`."""
        verdict = Verdict(status=Status.WRONG, parts=self.parts(task, reply))
        reward = verdict.reward
        if not self.low - SLACK <= reward <= self.top + SLACK:
            raise VerifierError(
                "E133", f"the reward {reward:g} is outside the declared range {self.low:g} to {self.top:g}",
where=repr(self),
                fix=f"low={min(reward, self.low):g}, top={max(reward, self.top):g}, if a correct reply gets top",
            )  # fmt: skip
        if reward < (self.top if self.right is None else self.right) - SLACK:
            return verdict
        return Verdict(status=Status.CORRECT, parts=verdict.parts)


def again(kind: type[Foreign], values: dict[str, Any]) -> Foreign:
    return kind(**values)


def called(function: Function) -> Callable[..., Any]:
    """The function itself. Raises: VerifierError E130 if it does not exist, E131 if its module cannot be imported."""
    found = load(function) if isinstance(function, str) else function
    if not callable(found):
        raise VerifierError("E130", f"{function!r} must be a function, not {type(found).__name__}")
    return found


def label(function: Function) -> str:
    """A short name for a part."""
    if isinstance(function, str):
        return function.rpartition(":")[2]
    return str(getattr(function, "__name__", type(function).__name__))


def number(value: Any, where: str) -> float:
    """A score as a float. Raises: VerifierError E132 for text, None, NaN and infinities."""
    if not isinstance(value, Real) and callable(getattr(value, "item", None)):
        value = value.item()  # A torch or numpy scalar.
    if not isinstance(value, Real) or not math.isfinite(value):
        raise VerifierError("E132", f"the score is {value!r:.100} and must be a finite number", where=where)
    return float(value)
