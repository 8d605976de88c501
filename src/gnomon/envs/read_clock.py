"""Read a clock: the time that two hands show, in steps of five minutes."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

from gnomon.envs.base import SLOT, SingleTurn, identity, user
from gnomon.envs.drawing import Canvas
from gnomon.images import Image
from gnomon.types import Task
from gnomon.verifiers import Malformed

FINE = 64
"""Positions of a pixel. Points are rounded to them, so that a drawing is the same on every machine."""


@dataclass(frozen=True, kw_only=True)
class ReadClock(SingleTurn):
    """The answer is a time such as 3:05. Different sizes are different tasks."""

    sides: tuple[int, ...] = (48, 56, 64)
    """Pixels of a side, one of them for each task."""
    step: int = 5
    """Minutes between two times."""

    def make(self, rng: random.Random) -> Task:
        return question_of(
            rng.randint(1, 12), rng.randrange(0, 60, self.step), rng.choice(self.sides), rng.randrange(12)
        )

    def neighbour(self, task: Task, rng: random.Random) -> Task:
        """The task with another minute."""
        return question_of(
            task.info["hour"], rng.randrange(0, 60, self.step), rng.choice(self.sides), rng.randrange(12)
        )

    def check(self, task: Task, answer: str) -> bool:
        hour, colon, minute = answer.partition(":")
        if not (colon and hour.isascii() and hour.isdecimal() and minute.isascii() and minute.isdecimal()):
            raise Malformed("the answer is not a time such as 3:05")
        return len(minute) == 2 and len(hour) <= 2 and f"{int(hour)}:{minute}" == task.answer

    def solution(self, task: Task) -> str:
        return str(task.answer)


def question_of(hour: int, minute: int, side: int, mark: int) -> Task:
    """Args: mark: number of the hour whose mark is longer, which makes more drawings of a time."""
    (question,) = user(f"What time is it, such as 3:05? {SLOT}")
    return Task(
        id=identity("read_clock", hour, minute, side, mark),
        messages=(replace(question, images=(picture(hour, minute, side, mark),)),),
        answer=f"{hour}:{minute:02}", info={"hour": hour},
    )  # fmt: skip


def picture(hour: int, minute: int, side: int, mark: int) -> Image:
    canvas, radius = Canvas(side), side / 2

    def at(turn: float, length: float) -> tuple[float, float]:
        """The point at a part of a whole turn from the top, and at a part of the radius."""
        across, up = math.sin(math.tau * turn), math.cos(math.tau * turn)
        return tuple(round((radius + length * radius * part) * FINE) / FINE for part in (across, -up))  # type: ignore[return-value]

    for number in range(12):
        canvas.line("black", at(number / 12, 0.72 if number == mark else 0.85), at(number / 12, 0.95), side / 40)
    canvas.line("blue", at(0, 0), at(minute / 60, 0.75), side / 24)
    canvas.line("red", at(0, 0), at(hour / 12 + minute / 720, 0.45), side / 14)
    return Image.of(canvas.png())
