"""What can become of a call in a worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Died", "Exceeded", "Lost", "Outcome", "Raised", "Returned"]


@dataclass(frozen=True, slots=True)
class Returned:
    """The function came back with a value."""

    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """The function raised, whatever it was; exits and interrupts included."""

    error: str
    """Type and message."""
    trace: str
    """The innermost frames."""


@dataclass(frozen=True, slots=True)
class Exceeded:
    """The call used more than it may and was ended."""

    resource: Literal["cpu", "wall", "memory", "output"]


@dataclass(frozen=True, slots=True)
class Died:
    """The worker ended under the call, each time it was tried: a crash of the interpreter, or somebody's kill."""

    tries: int
    why: str = ""
    """What is known of the reason; empty where nothing is."""


Outcome = Returned | Raised | Exceeded | Died


class Lost(Exception):
    """A call was not made, since the worker that held its state has ended."""
