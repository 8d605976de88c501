"""Word problem: how many things somebody has after some steps."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gnomon.envs.base import SLOT, SingleTurn, identity, user
from gnomon.envs.story import NAMES, THINGS, Story, wording
from gnomon.types import Task
from gnomon.verifiers import integer


@dataclass(frozen=True, kw_only=True)
class WordProblem(SingleTurn):
    """A count from 2 to `largest`, and `level` steps that add, subtract, or multiply by 2 or 3; never below 0."""

    level: int = 1
    largest: int = 20

    def make(self, rng: random.Random) -> Task:
        have = rng.randint(2, self.largest)
        return story_task(rng, (rng.choice(NAMES), rng.choice(THINGS), have, self._steps(rng, have, self.level)))

    def neighbour(self, task: Task, rng: random.Random) -> Task:
        """The task with the same beginning and other steps from some step on."""
        name, things, have, steps = task.info["story"]
        beginning = steps[: rng.randrange(len(steps))]
        return story_task(
            rng, (name, things, have, beginning + self._steps(rng, total(have, beginning), len(steps) - len(beginning)))
        )

    def _steps(self, rng: random.Random, have: int, count: int) -> list[tuple[str, int]]:
        steps: list[tuple[str, int]] = []
        while len(steps) < count:
            now = total(have, steps)
            sign = rng.choice("+-*" if now else "+")
            steps.append((sign, rng.randint(*{"+": (1, self.largest), "-": (1, now), "*": (2, 3)}[sign])))
        return steps

    def check(self, task: Task, answer: str) -> bool:
        return integer(answer) == int(task.answer)

    def solution(self, task: Task) -> str:
        return str(task.answer)


def total(have: int, steps: list[tuple[str, int]]) -> int:
    for sign, number in steps:
        have = have + number if sign == "+" else have - number if sign == "-" else have * number
    return have


def story_task(rng: random.Random, story: Story) -> Task:
    prompt, answer = f"{wording(rng, story)} {SLOT}", total(story[2], story[3])
    return Task(id=identity("word_problem", story), messages=user(prompt), answer=answer, info={"story": story})
