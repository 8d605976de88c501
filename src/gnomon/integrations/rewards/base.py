"""A reward function that somebody else wrote, as a verifier: numbers in, a verdict out, and nothing let through."""

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
"""A reward this close to the top is the top: weights are added up in floating point."""


@dataclass(frozen=True, kw_only=True)
class Foreign(ABC):
    """Judges by a foreign function. A reward of `right` or more is right; a lower one is wrong and keeps what it earns.

    What is no finite number in the declared range is the function's failure, not the policy's: it raises. The task is
    handed over as it is, not as a copy, so that an audit sees what is done to it.
    """

    low: float = 0.0
    """Lowest reward that any reply can earn."""
    top: float = 1.0
    """Highest reward that any reply can earn."""
    right: float | None = None
    """Least reward of a right reply, where a right one may earn less than the top; the top, if not given."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.top) and self.low < self.top):
            raise ValueError(f"low is {self.low} and top is {self.top}; low must be below top")
        if self.right is not None and not self.low < self.right <= self.top:
            raise ValueError(f"right is {self.right}; it must lie above low, {self.low}, and not above top, {self.top}")

    def __reduce__(self) -> tuple[Any, ...]:
        # Made again where it is unpickled, so that its import is over before the first reply is judged.
        return again, (type(self), {field.name: getattr(self, field.name) for field in fields(self)})

    @property
    def reward_range(self) -> tuple[float, float]:
        return self.low, self.top

    @abstractmethod
    def parts(self, task: Task, reply: str) -> tuple[Part, ...]:
        """What the function pays for a reply, by name."""

    def verify(self, task: Task, reply: str) -> Verdict:
        """Raises: VerifierError E132 for what is no number, E133 for a reward outside of `low` to `top`."""
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
    """The function itself. Raises: VerifierError E130 when there is no such function, E131 for a module that breaks."""
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
    """A score as a float. Raises: VerifierError E132 for text, None, NaN and the infinite."""
    if not isinstance(value, Real) and callable(getattr(value, "item", None)):
        value = value.item()  # A scalar of torch or numpy.
    if not isinstance(value, Real) or not math.isfinite(value):
        raise VerifierError("E132", f"the score is {value!r:.100} and must be a finite number", where=where)
    return float(value)
