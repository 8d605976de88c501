"""An environment that a team of a program and its helpers plays."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from gnomon.envs.agent import Agent, End
from gnomon.envs.base import identity, user
from gnomon.types import Task


@dataclass(frozen=True, kw_only=True)
class Team(Agent):
    """Rewards a right answer, and a little an answer of some length."""

    command: str = f"python {Path(__file__).with_name('team.py')}"

    def make(self, rng: random.Random) -> Task:
        a, b = rng.randint(10, 99), rng.randint(10, 99)
        return Task(id=identity("sum", a, b), messages=user(f"{a}+{b}. <answer>...</answer>"), answer=a + b)

    def folder(self, task: Task) -> dict[str, str | bytes]:
        return {"data/task.txt": task.id}

    def judge(self, task: Task, end: End) -> float:
        kept = end.text("data/task.txt") == task.id and "/scratch" in end.output
        answer = end.text("answer.txt")
        if answer == f"<answer>{task.answer}</answer>":
            return float(kept)
        return 0.1 * kept / (1 + len(answer) % 4) if answer.startswith("<answer>") else 0.0

    def solution(self, task: Task) -> End:
        answer = f"<answer>{task.answer}</answer>".encode()
        return End(status=0, output="/scratch", files={"data/task.txt": task.id.encode(), "answer.txt": answer})


@dataclass(frozen=True, kw_only=True)
class Hurried(Team):
    """The last call of each program is refused."""

    calls: int = 4
