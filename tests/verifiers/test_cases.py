"""Every rule of extraction and reading, one row each."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from gnomon.types import Status
from gnomon.verifiers import Malformed, Strictness, evaluate, extract, integer


def rows(name: str) -> list[Any]:
    text = (Path(__file__).parent / "cases" / f"{name}.jsonl").read_text("utf-8")
    return [pytest.param(row, id=f"{row['why']}") for row in map(json.loads, text.split("\n")[:-1])]


@pytest.mark.parametrize("row", rows("extract"))
def test_extraction(row: dict[str, str]) -> None:
    found = extract(row["reply"], Strictness(row["strictness"]))
    assert found.text == row.get("text")
    assert found.status == (Status(row["status"]) if "status" in row else None)
    if found.text is None:
        assert found.detail, "a refusal says why"
    else:
        assert found.span is not None and row["reply"][slice(*found.span)] == found.text


def test_every_refusal_under_every_strictness_is_a_row() -> None:
    told = {(row.values[0]["strictness"], row.values[0].get("status")) for row in rows("extract")}
    possible = {(s.value, status) for s in Strictness for status in (None, "no_answer")}
    possible |= {(s, "several") for s in ("exact", "trimmed", "only")}
    possible |= {(s, "out_of_place") for s in ("exact", "trimmed")}
    assert told == possible


@pytest.mark.parametrize("row", rows("expression"))
def test_expression(row: dict[str, str]) -> None:
    if "value" in row:
        assert evaluate(row["text"]).value == Fraction(row["value"])
    else:
        with pytest.raises(Malformed) as caught:
            evaluate(row["text"])
        assert row["malformed"] in str(caught.value)


@pytest.mark.parametrize("row", rows("integer"))
def test_integer(row: dict[str, Any]) -> None:
    if row["value"] is not None:
        assert integer(row["text"]) == row["value"]
    else:
        with pytest.raises(Malformed):
            integer(row["text"])
