"""Reward functions written for other libraries, as verifiers: TRL, verl, verifiers and reasoning-gym."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gnomon.integrations.rewards.base import Foreign, Function
from gnomon.integrations.rewards.reasoning_gym import GymScore, GymTasks
from gnomon.integrations.rewards.rubric import RubricReward, VerifiersTask
from gnomon.integrations.rewards.trl import TrlReward
from gnomon.integrations.rewards.verl import VerlScore

__all__ = [
    "Foreign",
    "Function",
    "GymScore",
    "GymTasks",
    "RubricReward",
    "TrlReward",
    "VerifiersTask",
    "VerlScore",
    "from_name",
]


PREFIXES: dict[str, Callable[..., Foreign]] = {
    "trl": lambda rest, **options: TrlReward(functions=several(rest), **options),
    "verl": lambda rest, **options: VerlScore(function=rest, **options),
    "rubric": lambda rest, **options: RubricReward(rubric=rest, **options),
    "verifiers": lambda rest, **options: VerifiersTask(task=rest, **options),
    "reasoning-gym": lambda rest, **options: GymScore(dataset=rest, **options),
}


def several(names: str) -> tuple[str, ...]:
    """Split a comma-separated list of functions. A name without a module or file is in that of the one before."""
    functions: list[str] = []
    for name in names.split(","):
        module = "" if ":" in name or not functions else functions[-1].rpartition(":")[0] + ":"
        functions.append(module + name.strip())
    return tuple(functions)


def from_name(target: str, **options: Any) -> Foreign | None:
    """The verifier for `trl:…`, `verl:…`, `rubric:…`, `verifiers:…` or `reasoning-gym:…`; None for other names.

    After the prefix comes a function, `package.module:function` or `file.py:function` (for TRL also several, separated
    by commas: `file.py:f,g`), or the name of a data set.

    Args: options: fields of the verifier.
    Raises: TypeError or ValueError for unknown or invalid options.
    """
    prefix, _, rest = target.partition(":")
    return PREFIXES[prefix](rest, **options) if prefix in PREFIXES and rest else None
