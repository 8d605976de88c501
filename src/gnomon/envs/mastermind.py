"""Mastermind: find a code from how many of its digits are placed and misplaced in each guess."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import product

from gnomon.envs.base import SLOT, identity, user
from gnomon.envs.turns import Ask, MultiTurn, Play
from gnomon.types import Task


@dataclass(frozen=True, kw_only=True)
class Mastermind(MultiTurn):
    """`length` digits from 1 to `digits`, which may repeat. Tasks differ by their deal, as in `GuessNumber`."""

    length: int = 3
    digits: int = 4
    guesses: int = 6

    def make(self, rng: random.Random) -> Task:
        code, deal = rng.choice(codes(self.length, self.digits)), rng.getrandbits(32)
        prompt = f"Find {self.length} digits 1-{self.digits}. {SLOT}"
        return Task(id=identity("mastermind", code, deal), messages=user(prompt), answer=code, info={"deal": deal})

    def play(self, task: Task, rng: random.Random) -> Play:
        history: tuple[tuple[str, tuple[int, int]], ...] = ()
        text = ""
        for _ in range(self.guesses):
            guess = yield Ask(text=text, legal=codes(self.length, self.digits), state=history)
            if guess == task.answer:
                return [1.0]
            exact, misplaced = marks(guess, task.answer)
            text, history = f"{exact} placed, {misplaced} misplaced", (*history, (guess, (exact, misplaced)))
        return [0.0]

    @property
    def moves(self) -> int:
        return self.guesses

    def best(self, task: Task, ask: Ask) -> str:
        """The first code that is consistent with all observations."""
        every = codes(self.length, self.digits)
        return next(code for code in every if all(marks(guess, code) == marked for guess, marked in ask.state))


@cache
def codes(length: int, digits: int) -> tuple[str, ...]:
    return tuple("".join(map(str, code)) for code in product(range(1, digits + 1), repeat=length))


def marks(guess: str, code: str) -> tuple[int, int]:
    """Number of digits in the right place, and number of other digits that occur elsewhere in the code."""
    exact = sum(a == b for a, b in zip(guess, code, strict=True))
    return exact, (Counter(guess) & Counter(code)).total() - exact
