"""The order in which a run takes its batches: judging a run again needs it too, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from gnomon.keys import Key

__all__ = ["reorder"]


@cache
def reorder(seed: int, steps: int) -> Sequence[int]:
    """By step, the step whose tasks and random numbers it takes: a permutation of all steps.

    Args: seed: 0 leaves every step where it is.
    """
    return tuple(Key(seed).at("order").random().sample(range(steps), steps)) if seed else range(steps)
