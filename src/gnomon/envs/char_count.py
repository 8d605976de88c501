"""Character count: how often a letter occurs in a string. All counts are equally likely."""

from __future__ import annotations

import random
import string
from dataclasses import dataclass

from gnomon.envs.base import SLOT, identity, user
from gnomon.envs.fresh import Divided
from gnomon.types import Task
from gnomon.verifiers import integer


@dataclass(frozen=True, kw_only=True)
class CharCount(Divided):
    """The answer is drawn first, uniformly, so that no constant answer is better than chance."""

    length: tuple[int, int] = (3, 7)
    """Shortest and longest string, in letters. A larger count makes it longer."""
    most: int = 3
    """Largest answer; the smallest is 0."""

    def make(self, rng: random.Random) -> Task:
        letter = rng.choice(string.ascii_lowercase)
        count = rng.randint(0, self.most)
        size = rng.randint(max(count, self.length[0]), max(count, self.length[1]))
        others = [c for c in string.ascii_lowercase if c != letter]
        letters = [letter] * count + [rng.choice(others) for _ in range(size - count)]
        rng.shuffle(letters)
        return task_of(letter, "".join(letters))

    def neighbour(self, task: Task, rng: random.Random) -> Task:
        """The task with one letter changed: a counted letter to another one, or another one to a counted letter."""
        letter, word = task.info["letter"], task.info["word"]
        i, other = rng.randrange(len(word)), rng.choice(string.ascii_lowercase.replace(letter, ""))
        new = other if word[i] == letter or word.count(letter) >= self.most else letter
        return task_of(letter, word[:i] + new + word[i + 1 :])

    def difficulty(self, task: Task) -> float:
        """Length of the string, in letters."""
        return len(task.info["word"])

    def check(self, task: Task, answer: str) -> bool:
        return integer(answer) == int(task.answer)

    def solution(self, task: Task) -> str:
        return str(task.answer)


def task_of(letter: str, word: str) -> Task:
    return Task(
        id=identity("char_count", letter, word), messages=user(f'How many "{letter}" in "{word}"? {SLOT}'),
        answer=word.count(letter), info={"letter": letter, "word": word},
    )  # fmt: skip
