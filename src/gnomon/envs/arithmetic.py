"""Arithmetic: the value of a short chain of sums, differences and products."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gnomon.envs.base import SLOT, SingleTurn, identity
from gnomon.types import Message, Task
from gnomon.verifiers import integer


@dataclass(frozen=True, kw_only=True)
class Arithmetic(SingleTurn):
    """`terms` whole numbers joined by `signs`; a product multiplies by a single digit."""

    terms: int = 2
    largest: int = 50
    signs: str = "+-"

    def make(self, rng: random.Random) -> Task:
        text = str(rng.randint(1, self.largest))
        for _ in range(self.terms - 1):
            sign = rng.choice(self.signs)
            text += f" {sign} {rng.randint(2, 9) if sign == '*' else rng.randint(1, self.largest)}"
        return Task(
            id=identity("arithmetic", text),
            messages=(Message(role="user", content=f"Compute {text}. {SLOT}"),),
            answer=total(text.split()),
            info={"expression": text},
        )

    def check(self, task: Task, answer: str) -> bool:
        return integer(answer) == int(task.answer)

    def solution(self, task: Task) -> str:
        return str(task.answer)


def total(words: list[str]) -> int:
    """The value of `a + b * c …`, products first."""
    value, product = 0, int(words[0])
    for sign, word in zip(words[1::2], words[2::2], strict=True):
        if sign == "*":
            product *= int(word)
        else:
            value, product = value + product, int(word) if sign == "+" else -int(word)
    return value + product
