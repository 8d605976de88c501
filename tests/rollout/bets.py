"""An environment of one word by every player. Its processes import this file, and neither torch nor pytest."""

from __future__ import annotations

from dataclasses import dataclass

from gnomon.envs import Step
from gnomon.keys import Key
from gnomon.types import Task
from rollout.ladder import Ladder, won


@dataclass(frozen=True, kw_only=True)
class Bets(Ladder):
    """Every player says one word. "up" wins; of every third task nobody does, and every fifth cannot be judged."""

    failing: bool = False

    @property
    def max_turns(self) -> int:
        return self.players

    def start(self, task: Task, key: Key) -> Bet:
        return Bet(self, task)


class Bet:
    def __init__(self, env: Bets, task: Task) -> None:
        self.env, self.messages, self.task, self.said = env, task.messages, task, []

    def step(self, reply: str) -> Step:
        if self.env.failing and self.task.answer % 5 == 0:
            raise RuntimeError("the judge is gone")
        self.said.append(reply)
        if len(self.said) < self.env.players:
            return Step(messages=self.messages, done=False, player=len(self.said))
        lost = self.task.answer % 3 == 0
        verdicts = tuple(won(1.0 if word == "up" and not lost else -1.0) for word in self.said)
        return Step(done=True, verdicts=verdicts) if self.env.players > 1 else Step(done=True, verdict=verdicts[0])

    def close(self) -> None:
        """Nothing is held."""
