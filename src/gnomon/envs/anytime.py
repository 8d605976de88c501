"""Anytime: the answer to one sum is asked for at several budgets of reasoning, and every right one pays."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from gnomon.envs.arithmetic import Arithmetic
from gnomon.envs.turns import Ask, MultiTurn, Play
from gnomon.types import Part, Status, Task, Verdict
from gnomon.verifiers import Malformed, integer


@dataclass(frozen=True, kw_only=True)
class Anytime(MultiTurn):
    """Reply j is the answer at `task.info["budgets"][j]`, given in tokens of reasoning; no answer there pays nothing.

    The verdict has a part for every budget, `at_0` first, each worth an equal share: the reward is the score at a
    budget drawn evenly. It is correct where the answer at the last one is. Whoever plays keeps the budgets.
    """

    budgets: int = 3
    largest: int = 96
    """Of the budgets, in tokens; each task draws its own."""
    terms: int = 3

    def make(self, rng: random.Random) -> Task:
        task = Arithmetic(terms=self.terms, signs="+-*").make(rng)
        drawn = sorted(rng.sample(range(1, self.largest + 1), self.budgets))
        return replace(task, info={**task.info, "budgets": tuple(drawn)})

    def play(self, task: Task, rng: random.Random) -> Play:
        right: list[bool] = []
        for budget in task.info["budgets"]:
            try:
                # The first question is the task's own.
                right.append(integer((yield Ask(text="More." if right else "", state=budget))) == task.answer)
            except Malformed:
                right.append(False)
        parts = tuple(
            Part(name=f"at_{place}", value=float(fine), weight=1 / self.budgets) for place, fine in enumerate(right)
        )
        return [Verdict(status=Status.CORRECT if right[-1] else Status.WRONG, parts=parts)]

    @property
    def moves(self) -> int:
        return self.budgets

    def best(self, task: Task, ask: Ask) -> str:
        return str(task.answer)
