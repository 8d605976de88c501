"""Calculator: a sum too long to do in one's head, with a calculator that may be asked first."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gnomon.envs.base import SLOT, identity, user
from gnomon.envs.expressions import grow
from gnomon.envs.turns import Ask, MultiTurn, Play
from gnomon.types import Task
from gnomon.verifiers import Malformed, calculate, integer


@dataclass(frozen=True, kw_only=True)
class Calculator(MultiTurn):
    """The value of an expression of `numbers` numbers and `signs`. A slot that holds a whole number is the answer.

    A slot that holds anything else is worked out by the calculator, which is asked `calls` times at most. A call pays
    nothing, and neither does the form of an answer.
    """

    numbers: int = 3
    largest: int = 9
    signs: str = "*"
    values: tuple[int, int] = (10, 99)
    """Least and most that an expression is worth."""
    calls: int = 2
    retries: int = 0

    def make(self, rng: random.Random) -> Task:
        for _ in range(10_000):
            value, text = grow(rng, [rng.randint(2, self.largest) for _ in range(self.numbers)], self.signs)
            if self.values[0] <= value <= self.values[1]:
                return Task(
                    id=identity("calculator", text),
                    messages=user(f"{text}. {SLOT}"),
                    answer=int(value),
                    info={"expression": text},
                )
        raise ValueError(f"no expression over such numbers is worth {self.values[0]} to {self.values[1]}")

    def play(self, task: Task, rng: random.Random) -> Play:
        told = ""
        for _ in range(self.calls + 1):
            said = yield Ask(text=told and f"={told}", state=told)
            try:
                return [float(integer(said) == task.answer)]
            except Malformed:
                told = calculate(said)
        return [0.0]

    @property
    def moves(self) -> int:
        return self.calls + 1

    def best(self, task: Task, ask: Ask) -> str:
        """What the calculator told, once it was asked."""
        return ask.state or str(task.info["expression"])
