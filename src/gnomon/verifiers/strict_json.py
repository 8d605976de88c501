"""Strict JSON with limits: no NaN, no repeated key, and a nesting depth that the interpreter can handle."""

from __future__ import annotations

import json
import math
from typing import Any

from gnomon.verifiers.slot import Malformed

__all__ = ["strict_json"]

MAX_LENGTH = 64 * 1024
"""Characters."""
MAX_DEPTH = 24
"""Largest nesting depth of arrays and objects."""
MAX_DIGITS = 512
"""Largest number of digits of one number."""


def strict_json(text: str, *, max_length: int = MAX_LENGTH) -> Any:
    """Parse JSON into plain Python values.

    Raises: Malformed if the text is not JSON; for a repeated key in one object, NaN, an infinity, a number that
    overflows a float, and anything beyond the limits of this module.
    """
    if len(text) > max_length:
        raise Malformed(f"JSON of over {max_length} characters")
    _measure(text)
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant, parse_int=_int, parse_float=_float)
    except json.JSONDecodeError as problem:
        raise Malformed(f"not JSON: {problem.msg} at character {problem.pos}") from problem


def _measure(text: str) -> None:
    """Check the depth and the numbers of a text before the parser reads it."""
    depth = 0
    quoted = escaped = False
    for char in text:
        if quoted:
            quoted = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            quoted = True
        elif char in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise Malformed(f"JSON nested over {MAX_DEPTH} deep")
        elif char in "]}":
            depth -= 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise Malformed("a key occurs twice in one object")
    return result


def _constant(name: str) -> Any:
    raise Malformed(f"{name} is not JSON")


def _int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise Malformed(f"a number of over {MAX_DIGITS} digits")
    return int(text)


def _float(text: str) -> float:
    if len(text) > MAX_DIGITS or not math.isfinite(value := float(text)):
        raise Malformed("a number is too large")
    return value
