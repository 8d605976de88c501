"""The possible outcomes of a call in a worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Died", "Exceeded", "Lost", "Outcome", "Raised", "Resource", "Returned"]

Resource = Literal["cpu", "wall", "memory", "output"]


@dataclass(frozen=True, slots=True)
class Returned:
    """The function returned a value."""

    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """The function raised an exception, including exits and interrupts."""

    error: str
    """Type and message."""
    trace: str
    """The innermost frames."""


@dataclass(frozen=True, slots=True)
class Exceeded:
    """The call exceeded a limit and was killed."""

    resource: Resource


@dataclass(frozen=True, slots=True)
class Died:
    """The worker ended during the call on every try: the interpreter crashed or was killed."""

    tries: int
    why: str = ""
    """The reason; empty if unknown."""


Outcome = Returned | Raised | Exceeded | Died


class Lost(Exception):
    """A call was not made, because the worker with its state has ended."""
