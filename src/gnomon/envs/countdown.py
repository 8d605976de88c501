"""Countdown: reach a target from given numbers, each used exactly once, with + − × ÷ and parentheses."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction

from gnomon.envs.base import SLOT, SingleTurn, identity
from gnomon.types import Message, Task
from gnomon.verifiers import evaluate


@dataclass(frozen=True, kw_only=True)
class Countdown(SingleTurn):
    """Solvable by construction: the target is the value of an expression drawn over the numbers."""

    numbers: tuple[int, ...] = (3,)
    """How many numbers a task may have."""
    largest: int = 10
    """The numbers run from 1 to this."""
    target: int = 100
    """The target runs from 1 to this."""

    def make(self, rng: random.Random) -> Task:
        for _ in range(10_000):
            numbers = [rng.randint(1, self.largest) for _ in range(rng.choice(self.numbers))]
            value, text = grow(rng, numbers)
            if value.denominator == 1 and 1 <= value <= self.target:
                break
        else:
            raise ValueError(f"no expression over such numbers makes a target of 1 to {self.target}")
        given = ", ".join(map(str, numbers))
        prompt = f"Make {value} from {given}. {SLOT}"
        return Task(
            id=identity("countdown", sorted(numbers), int(value)),
            messages=(Message(role="user", content=prompt),),
            answer=int(value),
            info={"numbers": numbers, "solution": text},
        )

    def check(self, task: Task, answer: str) -> bool:
        expression = evaluate(answer)
        return sorted(expression.numbers) == sorted(task.info["numbers"]) and expression.value == task.answer

    def solution(self, task: Task) -> str:
        return str(task.info["solution"])


def grow(rng: random.Random, numbers: list[int]) -> tuple[Fraction, str]:
    """A random expression over the numbers whose every part is a whole number of at least 0."""
    parts = [(Fraction(number), str(number)) for number in numbers]
    while len(parts) > 1:
        (a, x), (b, y) = (parts.pop(rng.randrange(len(parts))) for _ in range(2))
        sign = rng.choice([s for s in "+-*/" if not (s == "-" and a < b) and not (s == "/" and (b == 0 or a % b))])
        value = {"+": a + b, "-": a - b, "*": a * b, "/": a / b if sign == "/" else a}[sign]
        parts.append((value, f"({x}{sign}{y})"))
    value, text = parts[0]
    return value, text[1:-1] if text.startswith("(") else text
