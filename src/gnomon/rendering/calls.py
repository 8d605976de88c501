"""Parse tool calls from a policy's text."""

from __future__ import annotations

import json
from typing import Any

from gnomon.rendering.base import Parsing, ToolCall

__all__ = ["MAX_CHARS", "MAX_DEPTH", "Unreadable", "arguments_of", "malformed_call", "named_call"]

MAX_CHARS = 1 << 17
"""Longest call, in characters."""
MAX_DEPTH = 32
"""Largest nesting depth of brackets in one call."""

KNOWN = frozenset(("name", "id", "type"))
"""Keys of a call without arguments."""
BLANK = " \t\r\n"


class Unreadable(ValueError):
    """The text is not a call. The message tells the policy why."""


def named_call(text: str, slot: str) -> ToolCall:
    """The call in a JSON object that has a `name` and, under `slot`, an object of arguments.

    The arguments are the sampled text itself, not a parsed copy. A call with another key in place of `slot` is
    malformed.
    """
    try:
        fields = _fields(text)
        name, _ = fields.get("name", (None, ""))
        if not isinstance(name, str) or not name:
            raise Unreadable('the call has no "name"')
        if slot not in fields and (others := fields.keys() - KNOWN):
            raise Unreadable(f'the call has no "{slot}" but "{min(others)[:40]}"')
        value, raw = fields.get(slot, ({}, "{}"))
        if not isinstance(value, dict):
            raise Unreadable(f'"{slot}" of the call is not a JSON object')
    except Unreadable as error:
        return malformed_call(text, str(error))
    return ToolCall(name=name, arguments=raw)


def malformed_call(text: str, problem: str, name: str = "") -> ToolCall:
    return ToolCall(name=name, arguments=text, parsing=Parsing.MALFORMED, problem=problem)


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call as values.

    Raises: Unreadable if the text is not a JSON object, is longer than `MAX_CHARS` or nested deeper than `MAX_DEPTH`,
        repeats a key or has a non-finite number.
    """
    value = _read(call.arguments)
    if not isinstance(value, dict):
        raise Unreadable("the arguments are not a JSON object")
    return value


def _read(text: str) -> Any:
    _guard(text)
    try:
        return DECODER.decode(text)
    except Unreadable:
        raise
    except ValueError as error:
        raise Unreadable(f"the call is not JSON ({_reason(error)})") from None


def _guard(text: str) -> None:
    """Check length and depth before the recursive decoder reads the text."""
    if len(text) > MAX_CHARS:
        raise Unreadable(f"the call is longer than {MAX_CHARS} characters")
    depth, quoted, escaped = 0, False, False
    for sign in text:
        if quoted:
            quoted, escaped = escaped or sign != '"', not escaped and sign == "\\"
        elif sign == '"':
            quoted = True
        elif sign in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise Unreadable(f"the call is nested deeper than {MAX_DEPTH} brackets")
        elif sign in "]}":
            depth -= 1


def _fields(text: str) -> dict[str, tuple[Any, str]]:
    """Key → value and raw text, for a text that is one JSON object."""
    if not isinstance(_read(text), dict):
        raise Unreadable("the call is not a JSON object")
    fields: dict[str, tuple[Any, str]] = {}
    index = text.index("{") + 1
    # The text is well-formed, so only the spans of the values are searched.
    while text[index := _blank(text, index)] != "}":
        key, index = DECODER.raw_decode(text, _blank(text, index + (text[index] == ",")))
        begin = _blank(text, _blank(text, index) + 1)
        value, index = DECODER.raw_decode(text, begin)
        fields[key] = (value, text[begin:index])
    return fields


def _blank(text: str, index: int) -> int:
    while text[index] in BLANK:
        index += 1
    return index


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise Unreadable("an object of the call names a key twice")
    return fields


def _number(text: str) -> float:
    raise Unreadable(f"{text} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    return value if abs(value) != float("inf") else _number(text)


def _reason(error: ValueError) -> str:
    return error.msg if isinstance(error, json.JSONDecodeError) else "a number is too long"


DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_number, parse_float=_finite)
