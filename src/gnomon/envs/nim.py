"""Nim: two players take from heaps in turn; whoever takes the last wins."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import reduce
from operator import xor

from gnomon.envs.base import SLOT, identity, user
from gnomon.envs.turns import Ask, MultiTurn, Play
from gnomon.types import Task


@dataclass(frozen=True, kw_only=True)
class Nim(MultiTurn):
    """An action is `size count`: take `count` from a heap of `size`. Every observation shows the whole position.

    The player to act loses against perfect play if the exclusive or of the sizes is 0 (Bouton 1901).
    """

    heaps: tuple[int, ...] = (2, 3, 4)
    """The possible numbers of heaps in a task."""
    largest: int = 7

    def make(self, rng: random.Random) -> Task:
        heaps = sorted(rng.randint(1, self.largest) for _ in range(rng.choice(self.heaps)))
        return Task(id=identity("nim", heaps), messages=user(observation(heaps)), answer=None, info={"heaps": heaps})

    def play(self, task: Task, rng: random.Random) -> Play:
        heaps, player, text = list(task.info["heaps"]), 0, ""
        while heaps:
            move = yield Ask(text=text, legal=legal(heaps), player=player, state=tuple(heaps))
            size, count = map(int, move.split())
            heaps.remove(size)
            heaps = sorted([*heaps, size - count] if size > count else heaps)
            player, text = 1 - player, observation(heaps)
        return [-1.0, 1.0] if player == 0 else [1.0, -1.0]

    @property
    def moves(self) -> int:
        return max(self.heaps) * self.largest

    @property
    def players(self) -> int:
        return 2

    def best(self, task: Task, ask: Ask) -> str:
        """Reach an exclusive or of 0 if possible; else take one from the largest heap."""
        rest = reduce(xor, ask.state)
        ways = [f"{size} {size - (size ^ rest)}" for size in ask.state if size ^ rest < size]
        return ways[0] if ways else f"{max(ask.state)} 1"


def legal(heaps: list[int]) -> list[str]:
    return [f"{size} {count}" for size in sorted(set(heaps)) for count in range(1, size + 1)]


def observation(heaps: list[int]) -> str:
    return f"Nim {' '.join(map(str, heaps))}. Take: size count. {SLOT}"
