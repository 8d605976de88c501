"""verl: `compute_score(data_source, solution_str, ground_truth, extra_info) -> float or a dict with "score"`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real

from gnomon.errors import VerifierError
from gnomon.integrations.rewards.base import Foreign, Function, called, number
from gnomon.integrations.rewards.load import asked, awaited
from gnomon.types import Part, Task

__all__ = ["VerlScore"]


@dataclass(frozen=True, kw_only=True)
class VerlScore(Foreign):
    """A `compute_score`. Of a dict, `score` is the reward; other finite numbers are kept as parts that weigh nothing.

    The data source and the extra information are the task's `info["data_source"]` and `info["extra_info"]`, where it
    has them. A function that takes fewer arguments is given those that its signature names.

    Source: verl, `NaiveRewardManager` and `custom_reward_function`.
    """

    function: Function
    data_source: str = ""
    """For tasks that name none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        called(self.function)

    def parts(self, task: Task, reply: str) -> tuple[Part, ...]:
        given = awaited(
            asked(
                called(self.function),
                {
                    "data_source": task.info.get("data_source", self.data_source),
                    "solution_str": reply,
                    "ground_truth": task.answer,
                    "extra_info": task.info.get("extra_info", {}),
                },
            )
        )
        if not isinstance(given, Mapping):
            return (Part(name="score", value=number(given, "compute_score")),)
        if "score" not in given:
            raise VerifierError("E132", f'the returned dict has no "score": {given!r:.100}', where="compute_score")
        others = ((k, v) for k, v in given.items() if k != "score" and isinstance(v, Real) and math.isfinite(v))
        return (
            Part(name="score", value=number(given["score"], "compute_score")),
            *(Part(name=str(name), value=float(value), weight=0.0) for name, value in others),
        )
