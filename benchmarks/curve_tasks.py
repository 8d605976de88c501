"""The tasks of `reference_curves.py`: short questions to a small instruction-tuned model, which replies in its own way.

The answer is the last match of a pattern in the reply, by default the last whole number. A small model replies in a
sentence; a verifier that wanted the answer alone would measure that.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import ClassVar

from gnomon.envs.base import SingleTurn, identity, user
from gnomon.integrations.environments import ReasoningGym
from gnomon.types import Status, Task
from gnomon.verifiers.extract import Extraction

NUMBER = r"(?<![\d.])-?\d+(?!\.?\d)"
"""A whole number, and no part of one with decimals."""


class Last:
    """An environment whose answers have no frame."""

    frame: ClassVar[tuple[str, str]] = ("", "")
    pattern: str

    def extract(self, reply: str) -> Extraction:
        found = list(re.finditer(self.pattern, reply))
        if not found:
            return Extraction(text=None, status=Status.NO_ANSWER, detail="the reply has no answer")
        return Extraction(text=found[-1][0], span=found[-1].span())


@dataclass(frozen=True, kw_only=True)
class Addition(Last, SingleTurn):
    """The sum of two numbers."""

    low: int = 10
    high: int = 99
    pattern: str = NUMBER
    format: float = 0.0

    def make(self, rng: random.Random) -> Task:
        a, b = rng.randint(self.low, self.high), rng.randint(self.low, self.high)
        asked = f"What is {a} + {b}? Reply with the number only."
        return Task(id=identity("sum", a, b), messages=user(asked), answer=str(a + b))

    def check(self, task: Task, answer: str) -> bool:
        return answer == task.answer

    def solution(self, task: Task) -> str:
        return str(task.answer)


@dataclass(frozen=True, kw_only=True)
class Gym(Last, ReasoningGym):
    """A data set of reasoning-gym, judged by its own scorer."""

    pattern: str = NUMBER
