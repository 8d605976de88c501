"""Hostile replies for one subject: each text alone and in the slot, and powers of the task's numbers.

A text that is longer than a policy of the run could write is truncated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gnomon.audit.frame import Frame
from gnomon.audit.reach import Reach
from gnomon.types import Task
from gnomon.verifiers.hostile import hostile

__all__ = ["NUMBER", "hostile_calls", "prompt"]

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def hostile_calls(tasks: Sequence[Task], frame: Frame, gold: str | None, reach: Reach) -> Iterator[tuple[int, str]]:
    """Task index and reply. Args: gold: the first task's own answer, left out where a text happens to be it."""
    for entry in hostile():
        text = entry.text
        for reply in dict.fromkeys((reach.cut(text), frame.put(reach.cut(text, frame.put(""))))):
            if gold is None or reply not in (gold, frame.put(gold)):
                yield 0, reply
    for index in sorted(range(len(tasks)), key=lambda i: -len(NUMBER.findall(prompt(tasks[i]))))[:3]:
        numbers = sorted({n for n in NUMBER.findall(prompt(tasks[index])) if n.isdigit()}, key=int)
        supplied = tasks[index].info.get("numbers")
        supplied = sorted(map(str, supplied), key=len) if isinstance(supplied, list | tuple) else []
        for order in (numbers, numbers[::-1], supplied, supplied[::-1]):
            if len(order) > 1:
                yield index, frame.put("**".join(order))


def prompt(task: Task) -> str:
    return "\n".join(message.content for message in task.messages)
