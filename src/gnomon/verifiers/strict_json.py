"""Strict JSON with limits (no NaN, no repeated key, a nesting depth that the interpreter can handle), and JSON that
satisfies a schema."""

from __future__ import annotations

import importlib.util
import json
import math
from dataclasses import dataclass
from typing import Any, ClassVar

from gnomon.errors import ResourceError
from gnomon.verifiers.slot import Answered, Malformed, Rejected

__all__ = ["JsonSchema", "strict_json"]

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


@dataclass(frozen=True, kw_only=True)
class JsonSchema(Answered):
    """The answer is JSON; the reference is a JSON schema (draft 2020-12) that the answer must satisfy.

    References must stay inside the schema; nothing is fetched. A `pattern` in the schema has the risk described in
    `Pattern`. Raises: ResourceError E110 if the package jsonschema is not installed.
    """

    imports: ClassVar[tuple[str, ...]] = ("jsonschema",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if importlib.util.find_spec("jsonschema") is None:
            raise ResourceError(
                "E110",
                "the verifier JsonSchema needs the package jsonschema",
                fix='pip install "gnomon[schema]"',
            )

    def accepts(self, answer: str, gold: Any) -> bool:
        value = strict_json(answer)
        checker = checker_of(gold)
        try:
            violation = next(checker.iter_errors(value), None)
        except RecursionError as problem:
            # A recursive schema can exceed the recursion limit on JSON that the parser accepts.
            require_finite(checker)
            raise Malformed("JSON nested too deep for its schema") from problem
        if violation is not None:
            raise Rejected(f"{violation.json_path:.100} breaks the rule {violation.validator!r}")
        return True

    def require_gold(self, gold: Any) -> None:
        checker = checker_of(gold)
        try:
            checker.check_schema(gold)
            require_finite(checker)
        except RecursionError as problem:
            raise ValueError("the task's own answer is a JSON schema that is nested too deep") from problem
        except Exception as problem:  # Errors of jsonschema and of referencing have many types.
            raise ValueError(f"the task's own answer {gold!r:.100} is not a JSON schema: {problem!s:.200}") from problem


def checker_of(gold: Any) -> Any:
    """The validator of a schema. Raises: ValueError if the task's answer cannot be one."""
    import jsonschema  # type: ignore[import-untyped, import-not-found, unused-ignore]
    from referencing import Registry  # type: ignore[import-not-found, unused-ignore]

    if not isinstance(gold, dict | bool):
        raise ValueError(f"the task's own answer {gold!r:.100} is not a JSON schema")
    return jsonschema.Draft202012Validator(gold, registry=Registry())


def require_finite(checker: Any) -> None:
    """Raises: ValueError for a schema that recurses without end, which it also does on a plain value."""
    try:
        next(checker.iter_errors(None), None)
    except RecursionError as problem:
        raise ValueError("the task's own answer is a JSON schema that recurses without end") from problem
