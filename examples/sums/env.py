"""Sums in words, worked out by a program that lends the policy a calculator."""

import random
from dataclasses import dataclass
from pathlib import Path

from gnomon.envs import Agent, End, identity
from gnomon.envs.base import user
from gnomon.types import Task


@dataclass(frozen=True, kw_only=True)
class Sums(Agent):
    command: str = f"python {Path(__file__).with_name('calculator.py')}"
    calls: int = 2

    def make(self, rng: random.Random) -> Task:
        a, b, c = rng.randint(12, 40), rng.randint(12, 40), rng.randint(2, 60)
        asked = f"What is {a} times {b}, plus {c}?"
        return Task(id=identity("sum", a, b, c), messages=user(asked), answer=a * b + c)

    def judge(self, task: Task, end: End) -> float:
        return end.status == 0 and end.output.strip() == str(task.answer)

    def solution(self, task: Task) -> End:
        return End(status=0, output=f"{task.answer}\n")
