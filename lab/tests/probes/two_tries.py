"""An environment of two turns that judges each answer by itself, and games that do not."""

from __future__ import annotations

from dataclasses import dataclass

from gnomon.envs.arithmetic import Arithmetic
from gnomon.envs.base import Step
from gnomon.keys import Key
from gnomon.types import Task


@dataclass(frozen=True, kw_only=True)
class TwoTries(Arithmetic):
    """A sum with a second try; the second answer counts."""

    @property
    def max_turns(self) -> int:
        return 2

    def start(self, task: Task, key: Key) -> Tries:  # type: ignore[override]
        return Tries(self, task)


class Tries:
    def __init__(self, env: TwoTries, task: Task) -> None:
        self.env, self.task, self.messages, self.count = env, task, task.messages, 0

    def step(self, reply: str) -> Step:
        self.count += 1
        done = self.count == 2
        return Step(done=done, verdict=self.env.verify(self.task, reply) if done else None)

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, kw_only=True)
class Breaking(Arithmetic):
    """Its verifier fails on the answer 13."""

    def check(self, task: Task, answer: str) -> bool:
        if answer == "13":
            raise RuntimeError("the verifier broke")
        return super().check(task, answer)
