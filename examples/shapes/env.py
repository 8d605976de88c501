"""Shapes that a program counts: it sends the drawing to a policy that sees."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gnomon.envs import Agent, CountShapes, End
from gnomon.types import Task


@dataclass(frozen=True, kw_only=True)
class Shapes(Agent):
    command: str = f"python {Path(__file__).with_name('count.py')}"
    calls: int = 1
    drawn: ClassVar[CountShapes] = CountShapes(others=0)

    def make(self, rng: random.Random) -> Task:
        return self.drawn.make(rng)

    def judge(self, task: Task, end: End) -> float:
        return self.drawn.verify(task, end.output).correct

    def solution(self, task: Task) -> End:
        return End(status=0, output=self.drawn.framed(self.drawn.solution(task)))
