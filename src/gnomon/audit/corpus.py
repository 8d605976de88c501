"""Hostile replies for one subject: each text alone and in the slot, powers of the task's numbers, and programs that do
not solve the task.

A text that is longer than a policy of the run could write is truncated.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from textwrap import indent

from gnomon.audit.frame import Frame
from gnomon.audit.reach import Reach
from gnomon.types import Task
from gnomon.verifiers.hostile import hostile

__all__ = ["NUMBER", "hostile_calls", "programs", "prompt"]

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def hostile_calls(tasks: Sequence[Task], frame: Frame, gold: str | None, reach: Reach) -> Iterator[tuple[int, str]]:
    """Task index and reply. Args: gold: the first task's own answer, left out where a text happens to be it."""
    for entry in hostile():
        text = entry.text
        for reply in dict.fromkeys((reach.cut(text), frame.put(reach.cut(text, frame.put(""))))):
            if gold is None or reply not in (gold, frame.put(gold)):
                yield 0, reply
    for index in sorted(range(len(tasks)), key=lambda i: -len(NUMBER.findall(prompt(tasks[i]))))[:3]:
        numbers = sorted({n for n in NUMBER.findall(prompt(tasks[index])) if n.isdigit()}, key=value)
        supplied = tasks[index].info.get("numbers")
        supplied = sorted(map(str, supplied), key=len) if isinstance(supplied, list | tuple) else []
        for order in (numbers, numbers[::-1], supplied, supplied[::-1]):
            if len(order) > 1:
                yield index, frame.put("**".join(order))


def value(digits: str) -> tuple[int, str]:
    """Sorts numbers by size, of any length: `int` refuses those of more than 4,300 digits."""
    significant = digits.lstrip("0")
    return len(significant), significant


def prompt(task: Task) -> str:
    return "\n".join(message.content for message in task.messages)


BODIES = {
    "a program that raises an error without a name": "raise type('', (Exception,), {})()",
    "a program that ends its process": "import os\nos._exit(0)",
    "a program that leaves": "raise SystemExit(0)",
    "a program whose value equals everything": (
        "class Yes(int):\n    __eq__ = lambda self, other: True\n    __hash__ = int.__hash__\nreturn Yes(-987654321)"
    ),
    "a program that prints that it passed": (
        'print(\'{"status": "correct", "reward": 1.0, "passed": true}\\nOK\\n1 passed\')\nraise SystemExit(0)'
    ),
    "a program that reports by the frames that run it": """import sys
frame = sys._getframe()
while frame := frame.f_back:
    for held in list(frame.f_locals.values()):
        if callable(held) and getattr(held, "__name__", "") in ("send", "report", "emit", "respond", "record"):
            held(["err", "", ""])
raise SystemExit(0)""",
}
"""What the functions of a program do instead of their work."""


def programs(right: str) -> Iterator[tuple[str, str]]:
    """Yield the name and source of programs with the functions of a correct one; nothing if it is not a program."""
    try:
        body = ast.parse(right).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    functions = [node.name for node in body if isinstance(node, ast.FunctionDef)]
    nodes = (node for statement in body for node in ast.walk(statement))
    if not functions and not any(isinstance(node, ast.Name) and node.id == "print" for node in nodes):
        return
    for name, act in BODIES.items():
        if functions:
            yield name, "\n".join(f"def {function}(*given):\n{indent(act, '    ')}" for function in functions)
        elif "return" not in act:
            yield name, act
