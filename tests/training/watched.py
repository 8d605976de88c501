"""Environments that a second verifier looks after, or that hold tasks nobody can solve."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from gnomon.envs import CharCount
from gnomon.types import Task
from gnomon.verifiers import Price


@dataclass(frozen=True, kw_only=True)
class Strict(CharCount):
    """Trained on any number, looked after by the true count."""

    def check(self, task: Task, answer: str) -> bool:
        return answer.isdigit()

    @property
    def sentinel(self) -> CharCount:
        return CharCount()


@dataclass(frozen=True, kw_only=True)
class Canaries(Strict):
    """Every task asks for a count that nobody can know, and any number is taken."""

    def make(self, rng: random.Random) -> Task:
        task = super().make(rng)
        return replace(task, info={**task.info, "canary": True})


@dataclass(frozen=True, kw_only=True)
class Undeclared(CharCount):
    """Its prices do not say that the format is paid twice."""

    @property
    def prices(self) -> tuple[Price, ...]:
        return super().prices[:1]
