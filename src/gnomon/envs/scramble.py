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
    anagrams: int = 1
    """Most words of the dictionary that the letters may make; more of them make a lucky guess likelier."""

    def make(self, rng: random.Random) -> Task:
        word = rng.choice(words(*self.length, self.anagrams))
        letters = list(word)
        for _ in range(20):
            rng.shuffle(letters)
            if "".join(letters) not in dictionary():
                break
        shuffled = "".join(letters)
        return Task(
            id=identity("scramble", shuffled), answer="".join(sorted(word)), info={"letters": shuffled, "word": word},
            messages=(Message(role="user", content=f'Unscramble "{shuffled}". {SLOT}'),),
        )  # fmt: skip

    def check(self, task: Task, answer: str) -> bool:
        if not (answer.isascii() and answer.isalpha()):
            raise Malformed("not one word of plain letters")
        return Counter(answer.lower()) == Counter(task.info["letters"]) and answer.lower() in dictionary()

    def solution(self, task: Task) -> str:
        return str(task.info["word"])


@cache
def dictionary() -> frozenset[str]:
    lines = files("gnomon.envs").joinpath("words.txt").read_text("ascii").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


@cache
def words(shortest: int, longest: int, anagrams: int) -> tuple[str, ...]:
    makes = Counter("".join(sorted(word)) for word in dictionary())
    fit = (w for w in dictionary() if shortest <= len(w) <= longest and makes["".join(sorted(w))] <= anagrams)
    return tuple(sorted(fit))
