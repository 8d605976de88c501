"""Anytime: answer one sum at several reasoning budgets. Every correct answer pays."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import pairwise

from gnomon.envs.arithmetic import Arithmetic
from gnomon.envs.turns import Ask, MultiTurn, Play
from gnomon.types import Part, Status, Task, Verdict
from gnomon.verifiers import Malformed, integer


@dataclass(frozen=True, kw_only=True)
class Anytime(MultiTurn):
    """Replies 0 … j have `task.info["budgets"][j]` tokens together; reply j is judged. A missing answer pays 0.

    The verdict has one part per budget, `at_0` first, with equal weights, so the reward is the expected score at a
    uniformly drawn budget. The verdict is correct if the last answer is. A reply that is still being written at its
    budget is cut off there and judged as it is.
    """

    budgets: int = 3
    largest: int = 96
    """Largest budget in tokens. Each task draws its own budgets."""
    terms: int = 3

    def make(self, rng: random.Random) -> Task:
        task = Arithmetic(terms=self.terms, signs="+-*").make(rng)
        budgets = sorted(rng.sample(range(1, self.largest + 1), self.budgets))
        return replace(task, info={**task.info, "budgets": tuple(budgets)})

    def play(self, task: Task, rng: random.Random) -> Play:
        right: list[bool] = []
        for before, budget in pairwise((0, *task.info["budgets"])):
            try:
                # The task itself is the first question.
                reply = yield Ask(text=self.again(task) if right else "", state=budget, tokens=budget - before)
                right.append(integer(reply) == task.answer)
            except Malformed:
                right.append(False)
        parts = tuple(Part(name=f"at_{i}", value=float(fine), weight=1 / self.budgets) for i, fine in enumerate(right))
        return [Verdict(status=Status.CORRECT if right[-1] else Status.WRONG, parts=parts)]

    def again(self, task: Task) -> str:
        """What follows a reply, before the next one."""
        return "More."

    @property
    def moves(self) -> int:
        return self.budgets

    @property
    def token_budgets(self) -> tuple[int, int]:
        return self.budgets, self.largest

    def best(self, task: Task, ask: Ask) -> str:
        return str(task.answer)
