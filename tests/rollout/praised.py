"""Environments whose feedback is words. Their processes import this file, and neither torch nor pytest."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from gnomon.envs import Ask, CharCount, GuessNumber, Nim, Play
from gnomon.types import Task, Verdict

PRAISE = "exactly right"


def words(verdict: Verdict, player: int = 0) -> str:
    return PRAISE if verdict.correct else f"player {player}: {verdict.status.value}, {verdict.reward:g}"


@dataclass(frozen=True, kw_only=True)
class OneTurn(CharCount):
    praise = PRAISE

    def feedback(self, task: Task, verdict: Verdict) -> str:
        return words(verdict)


@dataclass(frozen=True, kw_only=True)
class Turns(GuessNumber):
    praise = PRAISE

    def feedback(self, task: Task, verdict: Verdict, player: int) -> str:
        return words(verdict, player)


@dataclass(frozen=True, kw_only=True)
class Players(Nim):
    """Each player says one thing, whatever it is, so that both have tokens; player 0 wins every other task."""

    praise = PRAISE

    def play(self, task: Task, rng: random.Random) -> Play:
        yield Ask()
        yield Ask(player=1, text="Say something.")
        sign = 1.0 if int(task.id, 16) // 16 % 2 else -1.0
        return [sign, -sign]

    def feedback(self, task: Task, verdict: Verdict, player: int) -> str:
        return words(verdict, player)


@dataclass(frozen=True, kw_only=True)
class Wordless(CharCount):
    """Words of praise, and none for any reply."""

    praise = PRAISE


@dataclass(frozen=True, kw_only=True)
class WordlessTurns(GuessNumber):
    praise = PRAISE


@dataclass(frozen=True, kw_only=True)
class WordlessPlayers(Nim):
    praise = PRAISE


ENVS: dict[str, Any] = {"char_count": OneTurn(), "guess_number": Turns(), "nim": Players()}
WORDLESS: dict[str, Any] = {"char_count": Wordless(), "guess_number": WordlessTurns(), "nim": WordlessPlayers()}
