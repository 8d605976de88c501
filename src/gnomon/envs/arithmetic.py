"""Arithmetic: the value of a short chain of sums, differences and products."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gnomon.envs.base import SLOT, identity, user
from gnomon.envs.fresh import Divided
from gnomon.types import Task
from gnomon.verifiers import integer


@dataclass(frozen=True, kw_only=True)
class Arithmetic(Divided):
    """`terms` whole numbers joined by `signs`; a product multiplies by a single digit."""

    terms: int = 2
    largest: int = 50
    signs: str = "+-"

    def make(self, rng: random.Random) -> Task:
        words = [str(rng.randint(1, self.largest))]
        for _ in range(self.terms - 1):
            words += self._term(rng)
        return task_of(words)

    def neighbour(self, task: Task, rng: random.Random) -> Task:
        """The task with one operand and its sign drawn again."""
        words = task.info["expression"].split()
        i = rng.randrange(0, len(words), 2)
        words[max(0, i - 1) : i + 1] = self._term(rng) if i else [str(rng.randint(1, self.largest))]
        return task_of(words)

    def _term(self, rng: random.Random) -> list[str]:
        sign = rng.choice(self.signs)
        return [sign, str(rng.randint(2, 9) if sign == "*" else rng.randint(1, self.largest))]

    def check(self, task: Task, answer: str) -> bool:
        return integer(answer) == int(task.answer)

    def solution(self, task: Task) -> str:
        return str(task.answer)


def task_of(words: list[str]) -> Task:
    text = " ".join(words)
    prompt, info = f"Compute {text}. {SLOT}", {"expression": text}
    return Task(id=identity("arithmetic", text), messages=user(prompt), answer=total(words), info=info)


def total(words: list[str]) -> int:
    """The value of `a + b * c …`, products first."""
    value, product = 0, int(words[0])
    for sign, word in zip(words[1::2], words[2::2], strict=True):
        if sign == "*":
            product *= int(word)
        else:
            value, product = value + product, int(word) if sign == "+" else -int(word)
    return value + product
