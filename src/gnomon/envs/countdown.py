"""Countdown: reach a target from given numbers, each used exactly once, with + − × ÷ and parentheses."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gnomon.envs.base import SLOT, identity, user
from gnomon.envs.expressions import grow
from gnomon.envs.fresh import Divided
from gnomon.types import Task
from gnomon.verifiers import evaluate


@dataclass(frozen=True, kw_only=True)
class Countdown(Divided):
    """Solvable by construction: the target is the value of an expression drawn over the numbers."""

    numbers: tuple[int, ...] = (3,)
    """The possible counts of numbers in a task. Each number is from 1 to `largest`."""
    largest: int = 10
    target: int = 100
    """Largest target; the smallest is 1."""

    def make(self, rng: random.Random) -> Task:
        for _ in range(10_000):
            numbers = [rng.randint(1, self.largest) for _ in range(rng.choice(self.numbers))]
            if (task := self._task(numbers, rng)) is not None:
                return task
        raise ValueError(f"no expression over such numbers has a value from 1 to {self.target}")

    def neighbour(self, task: Task, rng: random.Random) -> Task:
        """The task with one number changed or removed, or with another expression. The target changes with it."""
        numbers, change = list(task.info["numbers"]), rng.choice(("misread", "drop", "rearrange"))
        if change == "misread":
            numbers[rng.randrange(len(numbers))] = rng.randint(1, self.largest)
        elif change == "drop" and len(numbers) > 2:
            numbers.pop(rng.randrange(len(numbers)))
        return self._task(numbers, rng) or task

    def _task(self, numbers: list[int], rng: random.Random) -> Task | None:
        value, text = grow(rng, numbers)
        if value.denominator != 1 or not 1 <= value <= self.target:
            return None
        prompt = f"Make {value} from {', '.join(map(str, numbers))}. {SLOT}"
        info = {"numbers": numbers, "solution": text}
        name = identity("countdown", sorted(numbers), int(value))
        return Task(id=name, messages=user(prompt), answer=int(value), info=info)

    def difficulty(self, task: Task) -> float:
        """Count of numbers."""
        return len(task.info["numbers"])

    def check(self, task: Task, answer: str) -> bool:
        expression = evaluate(answer)
        return sorted(expression.numbers) == sorted(task.info["numbers"]) and expression.value == task.answer

    def solution(self, task: Task) -> str:
        return str(task.info["solution"])
