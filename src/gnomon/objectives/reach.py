"""Which tokens a coefficient depends on: what has to be together before a coefficient can be computed."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import Any, TypeVar

from torch import Tensor

__all__ = ["Reach", "reach_of", "reaches"]

Part = TypeVar("Part", bound=Callable[..., Tensor])


class Reach(IntEnum):
    """The tokens that the coefficient of a token depends on, beside the sizes of the step."""

    TOKEN = 0
    """Itself alone."""
    SEQUENCE = 1
    """All tokens of its rollout, of every turn."""
    GROUP = 2
    """All tokens of its group."""
    STEP = 3
    """All tokens of the optimiser step. The default for a function that declares nothing."""


def reaches(reach: Reach) -> Callable[[Part], Part]:
    """Declare the reach of a ratio, a correction, an aggregate or a penalty.

    A learner that splits a step computes a coefficient only from all tokens within its reach. If a
    function declares too small a reach, its gradient depends on the split.
    """

    def declare(part: Part) -> Part:
        _DECLARED.append((part, reach))
        return part

    return declare


def reach_of(part: Callable[..., Tensor]) -> Reach:
    """The declared reach of a function, also under `functools.partial`."""
    whole = without_options(part)
    return next((reach for declared, reach in _DECLARED if declared is whole), Reach.STEP)


def without_options(part: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function under any `functools.partial`."""
    while isinstance(part, partial):
        part = part.func
    return part


_DECLARED: list[tuple[Callable[..., Any], Reach]] = []
