"""List puzzle: sort a list, reverse it, or count in it."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gnomon.envs.base import SLOT, SingleTurn, identity, user
from gnomon.types import Task
from gnomon.verifiers import Malformed, integer


@dataclass(frozen=True, kw_only=True)
class ListPuzzle(SingleTurn):
    """Numbers from 0 to `largest`: sort them, reverse them, or count those above one of them."""

    kinds: tuple[str, ...] = ("sort", "reverse", "count")
    length: tuple[int, int] = (3, 6)
    """Shortest and longest list."""
    largest: int = 9

    def make(self, rng: random.Random) -> Task:
        numbers = [rng.randint(0, self.largest) for _ in range(rng.randint(*self.length))]
        return task_of(rng.choice(self.kinds), numbers)

    def neighbour(self, task: Task, rng: random.Random) -> Task:
        """The task with one number of the list changed."""
        numbers = list(task.info["numbers"])
        numbers[rng.randrange(len(numbers))] = rng.randint(0, self.largest)
        return task_of(task.info["kind"], numbers)

    def check(self, task: Task, answer: str) -> bool:
        numbers = [integer(word) for word in answer.replace(",", " ").split()]
        if not numbers:
            raise Malformed("no numbers")
        return numbers == list(task.answer)

    def solution(self, task: Task) -> str:
        return " ".join(map(str, task.answer))


def task_of(kind: str, numbers: list[int]) -> Task:
    text = " ".join(map(str, numbers))
    ask, answer = {
        "sort": (f"Sort {text}.", sorted(numbers)),
        "reverse": (f"Reverse {text}.", numbers[::-1]),
        "count": (f"How many above {numbers[0]} in {text}?", [sum(number > numbers[0] for number in numbers)]),
    }[kind]
    return Task(
        id=identity("list_puzzle", kind, numbers), messages=user(f"{ask} {SLOT}"), answer=answer,
        info={"kind": kind, "numbers": numbers},
    )  # fmt: skip
