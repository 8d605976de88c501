"""verl: `compute_score(data_source, solution_str, ground_truth, extra_info) -> float or a dict with "score"`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real

from gnomon.errors import VerifierError
from gnomon.integrations.rewards.base import Foreign, Function, import_function, number
from gnomon.integrations.rewards.load import call_with, wait_for
from gnomon.types import Part, Task

__all__ = ["VerlScore"]


@dataclass(frozen=True, kw_only=True)
class VerlScore(Foreign):
    """A `compute_score`. If it returns a dict, `score` is the reward; other finite numbers become parts of weight 0.

    The data source and the extra information are the task's `info["data_source"]` and `info["extra_info"]`, if present.
    A function with fewer parameters receives only those in its signature.

    Source: verl, `NaiveRewardManager` and `custom_reward_function`.
    """

    function: Function
    data_source: str = ""
    """Data source of tasks without one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        import_function(self.function)

    def parts(self, task: Task, reply: str) -> tuple[Part, ...]:
        returned = wait_for(
            call_with(
                import_function(self.function),
                {
                    "data_source": task.info.get("data_source", self.data_source),
                    "solution_str": reply,
                    "ground_truth": task.answer,
                    "extra_info": task.info.get("extra_info", {}),
                },
            )
        )
        if not isinstance(returned, Mapping):
            return (Part(name="score", value=number(returned, "compute_score")),)
        if "score" not in returned:
            raise VerifierError("E132", f'the returned dict has no "score": {returned!r:.100}', where="compute_score")
        others = ((k, v) for k, v in returned.items() if k != "score" and isinstance(v, Real) and math.isfinite(v))
        return (
            Part(name="score", value=number(returned["score"], "compute_score")),
            *(Part(name=str(name), value=float(value), weight=0.0) for name, value in others),
        )
