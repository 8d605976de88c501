"""Guess the number: each guess is answered with higher or lower."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gnomon.envs.base import SLOT, identity, user
from gnomon.envs.turns import Ask, MultiTurn, Play
from gnomon.types import Task


@dataclass(frozen=True, kw_only=True)
class GuessNumber(MultiTurn):
    """A number from 1 to `largest`, in `guesses` guesses. Binary search needs ⌈log₂(largest + 1)⌉.

    The prompt does not depend on the number, so tasks differ by the deal, and one number may be in both splits.
    """

    largest: int = 20
    guesses: int = 5

    def make(self, rng: random.Random) -> Task:
        number, deal = rng.randint(1, self.largest), rng.getrandbits(32)
        return Task(
            id=identity("guess_number", self.largest, number, deal),
            messages=user(f"Guess 1-{self.largest}. {SLOT}"),
            answer=number,
            info={"deal": deal},
        )

    def play(self, task: Task, rng: random.Random) -> Play:
        legal = [str(number) for number in range(1, self.largest + 1)]
        low, high, text = 1, self.largest, ""
        for _ in range(self.guesses):
            guess = int((yield Ask(text=text, legal=legal, state=(low, high))))
            if guess == task.answer:
                return [1.0]
            if guess < task.answer:
                low, text = max(low, guess + 1), "higher"
            else:
                high, text = min(high, guess - 1), "lower"
        return [0.0]

    @property
    def moves(self) -> int:
        return self.guesses

    def best(self, task: Task, ask: Ask) -> str:
        """The middle of the remaining range."""
        return str(sum(ask.state) // 2)
