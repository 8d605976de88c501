"""Linear equation: solve for x."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gnomon.envs.base import SLOT, SingleTurn, identity, user
from gnomon.types import Task
from gnomon.verifiers import integer


@dataclass(frozen=True, kw_only=True)
class LinearEquation(SingleTurn):
    """The solution is one whole number from -`largest` to `largest`. The coefficients of x are from 2 to 9."""

    level: int = 2
    """1 is ax = c, 2 is ax + b = c, 3 is ax + b = dx + c."""
    largest: int = 9

    def make(self, rng: random.Random) -> Task:
        a = rng.randint(2, 9)
        b = rng.choice([n for n in range(-20, 21) if n]) if self.level > 1 else 0
        d = rng.choice([n for n in range(2, 10) if n != a]) if self.level > 2 else 0
        return task_of(a, b, d, rng.randint(-self.largest, self.largest))

    def neighbour(self, task: Task, rng: random.Random) -> Task:
        """The task with one number drawn again. The constant on the right changes so that x is a whole number."""
        other = self.make(rng).info["numbers"]
        numbers = list(task.info["numbers"])
        i = rng.randrange(4)
        numbers[i] = other[i]
        return task_of(*numbers) if numbers[0] != numbers[2] else task

    def check(self, task: Task, answer: str) -> bool:
        return integer(answer.removeprefix("x =").removeprefix("x=").strip()) == int(task.answer)

    def solution(self, task: Task) -> str:
        return str(task.answer)


def task_of(a: int, b: int, d: int, x: int) -> Task:
    """The task ax + b = dx + c, with c computed from x."""
    text = f"{side(a, b)} = {side(d, (a - d) * x + b)}"
    prompt, info = f"Solve {text}. {SLOT}", {"equation": text, "numbers": (a, b, d, x)}
    return Task(id=identity("linear_equation", text), messages=user(prompt), answer=x, info=info)


def side(times: int, plus: int) -> str:
    """`times`·x + `plus` as text, without zero terms."""
    if not times:
        return str(plus)
    return f"{times}x" + (f" {'+' if plus > 0 else '-'} {abs(plus)}" if plus else "")
