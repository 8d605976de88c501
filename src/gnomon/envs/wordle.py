"""Wordle: find a word. Each guess shows which letters are in place, elsewhere or absent."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

from gnomon.envs.base import SLOT, identity, user
from gnomon.envs.dictionary import words
from gnomon.envs.turns import Ask, MultiTurn, Play
from gnomon.envs.wordle_marks import marks, narrowest
from gnomon.keys import Key
from gnomon.types import Task


@dataclass(frozen=True, kw_only=True)
class Wordle(MultiTurn):
    """One of `pool` words of 3 to 8 letters, drawn by the seed. Every dictionary word is a legal guess."""

    length: int = 4
    pool: int = 64
    guesses: int = 6

    def make(self, rng: random.Random) -> Task:
        word, deal = rng.choice(word_pool(self.seed, self.length, self.pool)), rng.getrandbits(32)
        prompt = f"Word of {self.length} letters. g right, y elsewhere, - absent. {SLOT}"
        return Task(id=identity("wordle", word, deal), messages=user(prompt), answer=word, info={"deal": deal})

    def play(self, task: Task, rng: random.Random) -> Play:
        history: tuple[tuple[str, str], ...] = ()
        for _ in range(self.guesses):
            text = history[-1][1] if history else ""
            guess = yield Ask(text=text, legal=words(self.length, self.length, 99), state=history)
            if guess == task.answer:
                return [1.0]
            history = (*history, (guess, marks(guess, task.answer)))
        return [0.0]

    @property
    def moves(self) -> int:
        return self.guesses

    def best(self, task: Task, ask: Ask) -> str:
        """Of the words consistent with all observations, the one that leaves the fewest in the worst case."""
        every = word_pool(self.seed, self.length, self.pool)
        return narrowest(tuple(w for w in every if all(marks(guess, w) == marked for guess, marked in ask.state)))


@cache
def word_pool(seed: int, length: int, pool: int) -> tuple[str, ...]:
    return tuple(Key(seed).at("wordle", length=length).random().sample(words(length, length, 99), pool))
