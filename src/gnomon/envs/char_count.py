"""Character count: how often a letter stands in a string, every count equally often the answer."""

from __future__ import annotations

import random
import string
from dataclasses import dataclass

from gnomon.envs.base import SLOT, SingleTurn, identity
from gnomon.types import Message, Task
from gnomon.verifiers import integer


@dataclass(frozen=True, kw_only=True)
class CharCount(SingleTurn):
    """The answer is drawn first, evenly, so that no constant guess does better than chance."""

    length: tuple[int, int] = (3, 7)
    """Shortest and longest string, in letters; a larger count makes it longer."""
    most: int = 3
    """The answer runs from 0 to this."""

    def make(self, rng: random.Random) -> Task:
        letter = rng.choice(string.ascii_lowercase)
        count = rng.randint(0, self.most)
        size = rng.randint(max(count, self.length[0]), max(count, self.length[1]))
        others = [c for c in string.ascii_lowercase if c != letter]
        letters = [letter] * count + [rng.choice(others) for _ in range(size - count)]
        rng.shuffle(letters)
        word = "".join(letters)
        return Task(
            id=identity("char_count", letter, word),
            messages=(Message(role="user", content=f'How many "{letter}" in "{word}"? {SLOT}'),),
            answer=count,
            info={"letter": letter, "word": word},
        )

    def check(self, task: Task, answer: str) -> bool:
        return integer(answer) == int(task.answer)

    def solution(self, task: Task) -> str:
        return str(task.answer)
