"""Tests of code as data sets write them, read as inputs and outputs."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from typing import Any

__all__ = ["cases", "unreadable"]


def cases(tests: Any) -> dict[str, Any]:
    """Tests as `verifiers.code.Cases.read` takes them: `call`, and pairs of inputs and output.

    Args: tests: lines `assert NAME(…) == VALUE` of one function with literal arguments; or a mapping with `inputs` and
        `outputs` of a script, as it is or as JSON.
    Raises: ValueError for anything else.
    """
    if isinstance(tests, str):
        tests = json.loads(tests)
    if isinstance(tests, dict):
        return script(tests)
    if not isinstance(tests, list | tuple) or not tests:
        raise ValueError("there are no tests")
    calls = [parse_assert(str(line)) for line in tests]
    names = {name for name, _, _ in calls}
    if len(names) != 1:
        raise ValueError(f"the tests call {len(names)} functions")
    return {"call": names.pop(), "cases": [[inputs, output] for _, inputs, output in calls]}


def unreadable(tests: Any) -> bool:
    """Whether `cases` cannot read them."""
    try:
        return not cases(tests)
    except (ValueError, TypeError, KeyError, SyntaxError, RecursionError):
        return True


def parse_assert(line: str) -> tuple[str, list[Any], Any]:
    """Function, arguments and value of `assert NAME(…) == VALUE`."""
    match ast.parse(line.strip()).body:
        case [
            ast.Assert(
                test=ast.Compare(
                    left=ast.Call(func=ast.Name(id=name), args=args, keywords=[]), ops=[ast.Eq()], comparators=[value]
                )
            )
        ]:
            # A tuple arrives in the sandbox as a list, so it can be a value and no argument.
            return name, [plain(ast.literal_eval(arg)) for arg in args], plain(ast.literal_eval(value), tuples=True)
    raise ValueError(f"{line!r:.100} is not an assertion of a call and its value")


def plain(value: Any, *, tuples: bool = False) -> Any:
    """The value, if JSON has it. Raises: ValueError."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list) or (tuples and isinstance(value, tuple)):
        return [plain(each, tuples=tuples) for each in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(each, tuples=tuples) for key, each in value.items()}
    raise ValueError(f"{type(value).__name__} is not a JSON value")


def script(tests: dict[str, Any]) -> dict[str, Any]:
    """Inputs and outputs of a script, each a text or a list of lines. Raises: ValueError, for tests of a function too.

    A function's name in such data sets is often that of a method of a class, which nothing calls here.
    """
    inputs, outputs = tests["inputs"], tests["outputs"]
    if tests.get("fn_name") or not inputs or len(inputs) != len(outputs):
        raise ValueError("they are not the inputs and outputs of a script")
    return {"call": "", "cases": [[text(one), text(other)] for one, other in zip(inputs, outputs, strict=True)]}


def text(value: str | Sequence[str]) -> str:
    """A text, or lines as one."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list | tuple) or not all(isinstance(line, str) for line in value):
        raise ValueError(f"{type(value).__name__} is not a text")
    return "\n".join(value)
