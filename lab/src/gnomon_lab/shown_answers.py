"""Countdown whose train prompts sometimes show a solution, to study hints that training can start from."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace

from gnomon.envs.base import user
from gnomon.envs.countdown import Countdown
from gnomon.types import Task

__all__ = ["ShownAnswers", "solutions"]


@dataclass(frozen=True, kw_only=True)
class ShownAnswers(Countdown):
    """The solution takes the place of the dots in the answer slot of some prompts. The task is the same."""

    numbers: tuple[int, ...] = (2,)
    shown: float = 0.0
    """Fraction of the tasks that show it, 0 to 1."""

    def make(self, rng: random.Random) -> Task:
        task = super().make(rng)
        if rng.random() >= self.shown:
            return task
        return replace(task, messages=user(task.messages[0].content.replace("...", self.solution(task))))


def solutions(count: int) -> str:
    """The first train tasks with their solutions, as lines of a file of demonstrations."""
    env = ShownAnswers()
    replies = (env.framed(env.solution(task)) for task in map(env.tasks("train").__getitem__, range(count)))
    return "\n".join(json.dumps({"task": place, "reply": reply}) for place, reply in enumerate(replies))
