"""Calculator: a long sum, with a calculator that the policy may call before it answers."""

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
    """The value of an expression with `numbers` numbers and `signs`. A whole number in the slot is the answer.

    Any other text in the slot is a call of the calculator, at most `calls` times. Neither a call nor the form of an
    answer is rewarded.
    """

    numbers: int = 3
    largest: int = 9
    signs: str = "*"
    values: tuple[int, int] = (10, 99)
    """Smallest and largest value of an expression."""
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
        raise ValueError(f"no expression over such numbers has a value from {self.values[0]} to {self.values[1]}")

    def play(self, task: Task, rng: random.Random) -> Play:
        result = ""
        for _ in range(self.calls + 1):
            reply = yield Ask(text=result and f"={result}", state=result)
            try:
                return [float(integer(reply) == task.answer)]
            except Malformed:
                result = calculate(reply)
        return [0.0]

    @property
    def moves(self) -> int:
        return self.calls + 1

    def best(self, task: Task, ask: Ask) -> str:
        """Call the calculator, then answer with its result."""
        return ask.state or str(task.info["expression"])
