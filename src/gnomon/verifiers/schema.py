"""JSON that satisfies a JSON schema."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any, ClassVar

from gnomon.errors import ResourceError
from gnomon.verifiers.slot import Answered, Malformed, Rejected
from gnomon.verifiers.strict_json import strict_json

__all__ = ["JsonSchema"]


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
