"""Programs that do not solve the task, for verifiers that run the code of a reply."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from textwrap import indent

__all__ = ["programs"]

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
