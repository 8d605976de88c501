"""Two-digit addition as a small chat model answers it: in a sentence, without a frame around the answer."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import ClassVar

from gnomon.envs.base import SingleTurn, identity, user
from gnomon.types import Status, Task
from gnomon.verifiers.extract import Extraction

__all__ = ["Addition"]

NUMBER = re.compile(r"(?<![\d.])-?\d+(?!\.?\d)")
"""A whole number, and no part of one with decimals."""


@dataclass(frozen=True, kw_only=True)
class Addition(SingleTurn):
    """The sum of two numbers. The answer is the last whole number of a reply."""

    frame: ClassVar[tuple[str, str]] = ("", "")
    low: int = 10
    high: int = 99
    format: float = 0.0

    def make(self, rng: random.Random) -> Task:
        a, b = rng.randint(self.low, self.high), rng.randint(self.low, self.high)
        asked = f"What is {a} + {b}? Reply with the number only."
        return Task(id=identity("sum", a, b), messages=user(asked), answer=str(a + b))

    def extract(self, reply: str) -> Extraction:
        found = list(NUMBER.finditer(reply))
        if not found:
            return Extraction(text=None, status=Status.NO_ANSWER, detail="the reply has no number")
        return Extraction(text=found[-1][0], span=found[-1].span())

    def check(self, task: Task, answer: str) -> bool:
        return answer == str(task.answer)

    def solution(self, task: Task) -> str:
        return str(task.answer)
