"""One sum, answered at two token budgets, for policies that do not know the word `More`."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from gnomon.envs.anytime import Anytime
from gnomon.envs.arithmetic import Arithmetic
from gnomon.types import Task

__all__ = ["AskedAgain"]

BUDGETS = (8, 32)
"""Written work with its answer takes up to 18 tokens, so the first budget has room for a guess alone."""


@dataclass(frozen=True, kw_only=True)
class AskedAgain(Anytime):
    """Anytime with sums of two numbers and fixed budgets. After the first, the task is asked again."""

    budgets: int = len(BUDGETS)
    largest: int = BUDGETS[-1]

    def make(self, rng: random.Random) -> Task:
        task = Arithmetic(signs="+").make(rng)
        return replace(task, info={**task.info, "budgets": BUDGETS})

    def again(self, task: Task) -> str:
        return task.messages[-1].content
