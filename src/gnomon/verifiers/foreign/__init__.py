"""Reward functions written for other libraries, as verifiers: TRL, verl, verifiers and reasoning-gym."""

from __future__ import annotations

from gnomon.verifiers.foreign.base import Foreign, Function
from gnomon.verifiers.foreign.reasoning_gym import GymScore, GymTasks
from gnomon.verifiers.foreign.rubric import RubricReward, VerifiersTask
from gnomon.verifiers.foreign.trl import TrlReward
from gnomon.verifiers.foreign.verl import VerlScore

__all__ = [
    "Foreign",
    "Function",
    "GymScore",
    "GymTasks",
    "RubricReward",
    "TrlReward",
    "VerifiersTask",
    "VerlScore",
    "named",
]


def named(target: str) -> Foreign | None:
    """The verifier behind `trl:…`, `verl:…`, `rubric:…`, `verifiers:…` or `reasoning-gym:…`; None for another name.

    After the prefix comes a function, `package.module:function` or `file.py:function` (TRL takes several, with commas
    between them), or the name of a data set.
    """
    prefix, _, rest = target.partition(":")
    if prefix == "trl":
        return TrlReward(functions=tuple(rest.split(",")))
    if prefix == "verl":
        return VerlScore(function=rest)
    if prefix == "rubric":
        return RubricReward(rubric=rest)
    if prefix == "verifiers":
        return VerifiersTask(task=rest)
    if prefix == "reasoning-gym":
        return GymScore(dataset=rest)
    return None
