"""Code: write a small Python function. Hidden tests judge it in a sandbox."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar

from gnomon.envs import programs
from gnomon.envs.base import SingleTurn, identity, user
from gnomon.sandbox import Limits
from gnomon.types import Task
from gnomon.verifiers import UnitTests


@dataclass(frozen=True, kw_only=True)
class Code(UnitTests, SingleTurn):
    """A chain of 1 to `steps` operations. The prompt shows `shown` calls; `hidden` other calls judge the reply."""

    steps: int = 2
    shown: int = 2
    hidden: int = 32
    # The wall-clock limit is much longer, because the machine may be busy.
    limits: Limits = Limits(cpu_seconds=0.25, wall_seconds=5.0, memory_bytes=2**28)  # noqa: RUF009
    frame: ClassVar[tuple[str, str]] = ("```python\n", "\n```")
    isolation: ClassVar[tuple[str, ...]] = ("sandbox",)
    imports: ClassVar[tuple[str, ...]] = ("gnomon.verifiers.warm_sandbox",)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least, most in (("steps", 1, 8), ("shown", 0, 8), ("hidden", 1, programs.BATTERY)):
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be from {least} to {most}")

    def make(self, rng: random.Random) -> Task:
        return self.task_of(rng, programs.draw_program(rng, self.steps, self.hidden))

    def neighbour(self, task: Task, rng: random.Random) -> Task:
        """The task with one operation removed, changed or added. It has at most max(`steps`, 2) operations."""
        program: programs.Program = task.info["program"]
        other = rng.choice(programs.nearby(program) + programs.longer(program) * (len(program) < max(self.steps, 2)))
        return self.task_of(rng, other) if programs.discerning(other, self.hidden) else task

    def task_of(self, rng: random.Random, program: programs.Program) -> Task:
        # Equivalent programs are in one split, and have the same tests.
        name = identity("code", programs.words(program), family=programs.cases(program))
        answer = {"call": "solve", "cases": programs.cases(program)[: self.hidden]}
        ask = f"Python: {programs.prompt_text(rng, program, self.shown)} One ```python block."
        return Task(id=name, messages=user(ask), answer=answer, info={"program": program})

    def check(self, task: Task, answer: str) -> float:
        return self.verify(task, self.framed(answer)).parts[0].value

    def solution(self, task: Task) -> str:
        return programs.source(task.info["program"])
