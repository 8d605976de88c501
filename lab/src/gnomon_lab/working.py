"""Written work in replies to sums: how many have a right intermediate result before the answer."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import fmean

from gnomon.envs.base import identity
from gnomon.store import RunReader
from gnomon.types import Message, Task
from gnomon_lab.addition import Addition

__all__ = [
    "ShownSums", "dip", "growth", "held_out_by_additions", "lengths", "questions", "rise", "share_worked", "worked"
]  # fmt: skip

LAST = 3
"""Steps at the end of a run that are averaged."""

NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, kw_only=True)
class ShownSums(Addition):
    """A sum after four solved ones, in turn with and without intermediate results."""

    low: int = 1
    high: int = 9
    numbers: int = 3

    def make(self, rng: random.Random) -> Task:
        own, *shown = ([rng.randint(self.low, self.high) for _ in range(self.numbers)] for _ in range(5))
        messages = [Message(role="user", content=question(own))]
        for place, numbers in enumerate(shown):
            reply = str(sum(numbers)) if place % 2 else work(numbers)
            messages[-1:-1] = [
                Message(role="user", content=question(numbers)),
                Message(role="assistant", content=reply),
            ]
        return Task(id=identity("shown sums", own, shown), messages=tuple(messages), answer=str(sum(own)))


def question(numbers: list[int]) -> str:
    return f"What is {' + '.join(map(str, numbers))}?"


def work(numbers: list[int]) -> str:
    """A reply with all intermediate results, such as `4 + 6 = 10, 10 + 7 = 17`."""
    sums = list(accumulate(numbers))
    return ", ".join(
        f"{before} + {added} = {after}" for (before, after), added in zip(pairwise(sums), numbers[1:], strict=True)
    )


def additions(numbers: list[int]) -> list[int]:
    """The parts that are added one after another: the first number, then the tens and the ones of each later one."""
    rest = (part for number in numbers[1:] for part in (number // 10 * 10, number % 10) if part)
    return [numbers[0], *rest]


def worked(sum_of: str, reply: str) -> bool:
    """Whether the right result of an addition comes before the last number of a reply.

    The results are the sums of the first parts, with tens and ones added separately; an operand is none.
    Args: sum_of: text whose numbers are the operands, such as `46 + 28`.
    """
    numbers = [int(each) for each in NUMBER.findall(sum_of)]
    results = set(list(accumulate(additions(numbers)))[1:]) - set(numbers)
    return any(int(each) in results for each in NUMBER.findall(reply)[:-1])


def questions(reader: RunReader, of: str) -> dict[int | None, str]:
    """The text of the tasks of a run, by their index. Args: of: `rollout` for train tasks, or `held_out`."""
    return {each.task: each.body["messages"][-1]["content"] for each in reader.records("task") if each.body["of"] == of}


def share_worked(reader: RunReader, step: int) -> float:
    """Fraction of the replies of a training step that have a right intermediate result before the answer."""
    texts = questions(reader, "rollout")
    replies = [worked(texts[each.task], each.body["reply"]) for each in reader.records("rollout", step)]
    return sum(replies) / len(replies)


def held_out_by_additions(reader: RunReader, count: int) -> float:
    """Held-out accuracy after training, of the tasks that take so many additions of tens or ones."""
    texts = questions(reader, "held_out")
    right: list[bool] = [
        each.body["status"] == "correct"
        for each in reader.records("held_out", reader.steps)
        if len(additions([int(number) for number in NUMBER.findall(texts[each.task])])) == count + 1
    ]
    return sum(right) / len(right)


def rise(reader: RunReader) -> float:
    """Share of replies with intermediate results in the last steps less that in the first step."""
    last = range(reader.steps - LAST, reader.steps)
    return fmean(share_worked(reader, step) for step in last) - share_worked(reader, 0)


def growth(reader: RunReader) -> float:
    """Tokens of a reply in the last steps less those in the first step."""
    return fmean(lengths(reader)[-LAST:]) - lengths(reader)[0]


def dip(reader: RunReader) -> float:
    """Tokens of a reply in the first step less those in the shortest step; 0 where no step is shorter."""
    return lengths(reader)[0] - min(lengths(reader))


def lengths(reader: RunReader) -> list[float]:
    return [float(step["metrics"]["length"]) for step in reader.metrics()]
