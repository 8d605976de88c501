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
        import jsonschema  # type: ignore[import-untyped, import-not-found, unused-ignore]
        from referencing import Registry  # type: ignore[import-not-found, unused-ignore]

        if not isinstance(gold, dict | bool):
            raise ValueError(f"the task's own answer {gold!r:.100} is not a JSON schema")
        value = strict_json(answer)
        checker = jsonschema.Draft202012Validator(gold, registry=Registry())
        try:
            broken = next(checker.iter_errors(value), None)
        except RecursionError as problem:
            # A recursive schema can exceed the recursion limit on JSON that the parser accepts. A schema that
            # recurses without end is its author's mistake, and fails on a plain value too.
            next(checker.iter_errors(None), None)
            raise Malformed("JSON nested too deep for its schema") from problem
        if broken is not None:
            raise Rejected(f"{broken.json_path:.100} breaks the rule {broken.validator!r}")
        return True
