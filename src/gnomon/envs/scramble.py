"""Scramble: turn shuffled letters back into a word. Any dictionary word with these letters is correct."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from gnomon.envs.base import SLOT, identity, user
from gnomon.envs.dictionary import dictionary, words
from gnomon.envs.fresh import Divided
from gnomon.types import Task
from gnomon.verifiers import Malformed


@dataclass(frozen=True, kw_only=True)
class Scramble(Divided):
    """Shuffled letters of a dictionary word. If possible, the arrangement is not itself a word.

    A held-out task is an arrangement that is not in the train split; its word may be, in other arrangements.
    """

    length: tuple[int, int] = (3, 3)
    """Shortest and longest word, in letters; the dictionary has 3 to 8."""
    anagrams: int = 1
    """Largest number of dictionary words that the letters may form. More words make a random guess more likely."""

    def make(self, rng: random.Random) -> Task:
        return self._shuffle(rng.choice(words(*self.length, self.anagrams)), rng)

    def neighbour(self, task: Task, rng: random.Random) -> Task:
        """Another arrangement of the same word, or of a word that differs in one or two letters."""
        word, most = task.info["word"], rng.choice((1, 1, 1, 2))
        near = [w for w in words(len(word), len(word), self.anagrams) if sum(map(str.__ne__, w, word)) <= most]
        return self._shuffle(rng.choice(near), rng)

    def _shuffle(self, word: str, rng: random.Random) -> Task:
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
            raise Malformed("the answer is not one word of plain letters")
        return Counter(answer.lower()) == Counter(task.info["letters"]) and answer.lower() in dictionary()

    def solution(self, task: Task) -> str:
        return str(task.info["word"])
