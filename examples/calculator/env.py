"""Products of three numbers, worked out by an agent that has a calculator."""

import random
from dataclasses import dataclass
from pathlib import Path

from gnomon.envs import Agent, End, identity
from gnomon.envs.base import user
from gnomon.types import Task


@dataclass(frozen=True, kw_only=True)
class Products(Agent):
    command: str = f"python {Path(__file__).with_name('agent.py')}"
    calls: int = 3

    def make(self, rng: random.Random) -> Task:
        a, b, c = (rng.randint(2, 9) for _ in range(3))
        text = f"{a}*{b}*{c}"
        return Task(id=identity("product", text), messages=user(f"{text}. <answer>...</answer>"), answer=a * b * c)

    def judge(self, task: Task, end: End) -> float:
        return end.status == 0 and end.output.strip() == str(task.answer)

    def solution(self, task: Task) -> End:
        return End(status=0, output=f"{task.answer}\n")
