"""Base class of verifiers that call a reward function of another library. Invalid scores are errors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any

from gnomon.errors import VerifierError
from gnomon.integrations.rewards.load import load
from gnomon.types import Part, Status, Task, Verdict

__all__ = ["Foreign", "Function", "clip", "import_function", "label", "number", "outward"]

Function = str | Callable[..., Any]
"""A function, or its name: `package.module:function` or `path/file.py:function`."""
SLACK = 1e-9
"""Tolerance below the top reward, because weights are summed in floating point."""
HAIR = 1e-6
"""Largest distance from the range, relative to its larger bound, that rounding can explain, as in float32."""


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
        verdict = Verdict(status=Status.WRONG, parts=self._within(self.parts(task, reply)))
        reward = verdict.reward
        if not self.low - SLACK <= reward <= self.top + SLACK:
            low, top = outward(min(reward, self.low), max(reward, self.top))
            raise VerifierError(
                "E133", f"the reward {reward:.8g} is outside the declared range {self.low:g} to {self.top:g}",
                where=repr(self), fix=f"low={low:g}, top={top:g}, if a correct reply gets top",
            )  # fmt: skip
        if reward < (self.top if self.right is None else self.right) - SLACK:
            return verdict
        return Verdict(status=Status.CORRECT, parts=verdict.parts)

    def _within(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """The parts, with the first that counts changed where rounding puts their sum outside the range."""
        reward = Verdict(status=Status.WRONG, parts=parts).reward
        excess = reward - clip(reward, self.low, self.top)
        weighted = [i for i, part in enumerate(parts) if part.weight]
        if not excess or (len(weighted) > 1 and abs(excess) <= SLACK):
            return parts
        first = weighted[0]
        value = (parts[first].value * parts[first].weight - excess) / parts[first].weight
        return (*parts[:first], replace(parts[first], value=value), *parts[first + 1 :])


def clip(reward: float, low: float, top: float) -> float:
    """The reward; the bound for one outside the range by no more than rounding."""
    hair = HAIR * max(abs(low), abs(top))
    return min(max(reward, low), top) if low - hair <= reward <= top + hair else reward


def outward(low: float, top: float) -> tuple[float, float]:
    """A range that contains both numbers, with three significant digits."""

    def round_to(value: float, way: Callable[[float], int]) -> float:
        digits = 2 - math.floor(math.log10(abs(value))) if value else 0
        return round(way(value * 10.0**digits) / 10.0**digits, max(digits, 0))

    return round_to(low, math.floor), round_to(top, math.ceil)


def again(kind: type[Foreign], values: dict[str, Any]) -> Foreign:
    return kind(**values)


def import_function(function: Function) -> Callable[..., Any]:
    """The function itself. Raises: VerifierError E130 if it does not exist, E131 if its module cannot be imported."""
    member = load(function) if isinstance(function, str) else function
    if not callable(member):
        raise VerifierError("E130", f"{function!r} must be a function, not {type(member).__name__}")
    return member


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
