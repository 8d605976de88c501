"""The case corpora of the verifiers that ship: every rule a row, each with why it is here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gnomon.types import Task
from gnomon.verifiers import Verifier
from gnomon.verifiers.choice import Choice
from gnomon.verifiers.math import Math
from gnomon.verifiers.number import Number
from gnomon.verifiers.pattern import Pattern
from gnomon.verifiers.polynomial import PolynomialAnswer
from gnomon.verifiers.schema import JsonSchema
from gnomon.verifiers.sets import SetMatch
from gnomon.verifiers.text import Text
from verifiers.shipped import there

KINDS: dict[str, type] = {
    "choice": Choice, "math": Math, "number": Number, "pattern": Pattern, "polynomial": PolynomialAnswer,
    "schema": JsonSchema, "sets": SetMatch, "text": Text,
}  # fmt: skip
NEEDS = {"math": "mpmath", "schema": "jsonschema"}


def rows(name: str) -> list[Any]:
    missing = name in NEEDS and not there(NEEDS[name])
    marks = [pytest.mark.skipif(missing, reason=f"needs {NEEDS.get(name)}")]
    text = (Path(__file__).parent / "cases" / f"{name}.jsonl").read_text("utf-8")
    found = [json.loads(line) for line in text.split("\n")[:-1]]
    return [pytest.param(name, row, id=f"{name}: {row['why']}", marks=marks) for row in found]


@pytest.mark.parametrize(("name", "row"), [row for name in KINDS for row in rows(name)])
def test_case(name: str, row: dict[str, Any]) -> None:
    verifier: Verifier = KINDS[name](**row.get("options", {}))
    task = Task(id="case", messages=(), answer=row["gold"], info=row.get("info", {}))
    verdict = verifier.verify(task, f"<answer>{row['answer']}</answer>")
    assert verdict.status == row["status"], verdict.detail
    assert (verdict.reward == verifier.reward_range[1]) == verdict.correct
    assert verdict.correct or verdict.detail or verdict.status == "wrong", "a refusal says why"
