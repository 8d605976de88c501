"""Scramble: turn shuffled letters back into a word; any word of the dictionary made of them counts."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from gnomon.envs.base import SLOT, SingleTurn, identity, user
from gnomon.envs.dictionary import dictionary, words
from gnomon.types import Task
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
        return self._shuffled(rng.choice(words(*self.length, self.anagrams)), rng)

    def neighbour(self, task: Task, rng: random.Random) -> Task:
        """Another arrangement, of the same word or of one that differs in one letter, at times in two."""
        word, most = task.info["word"], rng.choice((1, 1, 1, 2))
        near = [w for w in words(len(word), len(word), self.anagrams) if sum(map(str.__ne__, w, word)) <= most]
        return self._shuffled(rng.choice(near), rng)

    def _shuffled(self, word: str, rng: random.Random) -> Task:
        letters = list(word)
        for _ in range(20):
            rng.shuffle(letters)
            if "".join(letters) not in dictionary():
                break
        shuffled = "".join(letters)
        return Task(
            id=identity("scramble", shuffled), answer="".join(sorted(word)), info={"letters": shuffled, "word": word},
            messages=user(f'Unscramble "{shuffled}". {SLOT}'),
        )  # fmt: skip

    def check(self, task: Task, answer: str) -> bool:
        if not (answer.isascii() and answer.isalpha()):
            raise Malformed("not one word of plain letters")
        return Counter(answer.lower()) == Counter(task.info["letters"]) and answer.lower() in dictionary()

    def solution(self, task: Task) -> str:
        return str(task.info["word"])
