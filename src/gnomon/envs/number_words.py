"""Number words: write a number in words. The reference is a text, as objectives without a verifier need it."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gnomon.envs.base import SLOT, SingleTurn, identity, user
from gnomon.envs.spelled import words
from gnomon.types import Task
from gnomon.verifiers import Malformed


@dataclass(frozen=True, kw_only=True)
class NumberWords(SingleTurn):
    """Numbers of 1 to `digits` digits. Hyphens, case and "and" are free; the reference has hyphens and no "and"."""

    digits: int = 4
    """1 to 6."""

    def make(self, rng: random.Random) -> Task:
        return task_of(rng.randrange(10 ** rng.randint(1, self.digits)))

    def neighbour(self, task: Task, rng: random.Random) -> Task:
        """The task with one digit changed, removed or inserted."""
        text = str(task.info["number"])
        at, new = rng.randrange(len(text)), str(rng.randrange(10))
        near = [text[:at] + new + text[at + 1 :], text[:at] + text[at + 1 :], text[:at] + new + text[at:]]
        return task_of(int(rng.choice([digits for digits in near if 0 < len(digits) <= self.digits])))

    def check(self, task: Task, answer: str) -> bool:
        if not answer.replace("-", "").replace(" ", "").isalpha():
            raise Malformed("the answer does not consist of words")
        return plain(answer) == plain(task.answer)

    def solution(self, task: Task) -> str:
        return str(task.answer)


def task_of(number: int) -> Task:
    prompt, info = f"Write {number} in words. {SLOT}", {"number": number}
    return Task(id=identity("number_words", number), messages=user(prompt), answer=words(number), info=info)


def plain(text: str) -> list[str]:
    return [word for word in text.lower().replace("-", " ").split() if word != "and"]
