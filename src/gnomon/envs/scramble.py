"""Scramble: turn shuffled letters back into a word; any word of the dictionary made of them counts."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from gnomon.envs.base import SLOT, SingleTurn, identity
from gnomon.types import Message, Task
from gnomon.verifiers import Malformed


@dataclass(frozen=True, kw_only=True)
class Scramble(SingleTurn):
    """Letters of a dictionary word, shuffled into something that is no word itself where that can be.

    A held-out task is an arrangement never seen in training; its word may have been, in other arrangements.
    """

    length: tuple[int, int] = (3, 3)
    """Shortest and longest word, in letters (3 to 6 are shipped)."""

    def make(self, rng: random.Random) -> Task:
        word = rng.choice(words(*self.length))
        letters = list(word)
        for _ in range(20):
            rng.shuffle(letters)
            if "".join(letters) not in dictionary():
                break
        shuffled = "".join(letters)
        return Task(
            id=identity("scramble", shuffled),
            messages=(Message(role="user", content=f'Unscramble "{shuffled}". {SLOT}'),),
            answer="".join(sorted(word)),
            info={"letters": shuffled, "word": word},
        )

    def check(self, task: Task, answer: str) -> bool:
        if not (answer.isascii() and answer.isalpha()):
            raise Malformed("not one word of plain letters")
        return Counter(answer.lower()) == Counter(task.info["letters"]) and answer.lower() in dictionary()

    def solution(self, task: Task) -> str:
        return str(task.info["word"])


@cache
def dictionary() -> frozenset[str]:
    text = files("gnomon.envs").joinpath("words.txt").read_text("ascii")
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))


@cache
def words(shortest: int, longest: int) -> tuple[str, ...]:
    return tuple(sorted(word for word in dictionary() if shortest <= len(word) <= longest))
