"""Over 200 pairs of reply and strictness, each with its exact reason code; boxes and fences likewise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gnomon.types import Task
from gnomon.verifiers import Strictness
from gnomon.verifiers.boxes import read_box
from gnomon.verifiers.fences import read_fence
from gnomon.verifiers.number import Number
from verifiers.strictness import corpus, table

ROWS = corpus()
TASK = Task(id="strictness", messages=(), answer="4")


@pytest.mark.parametrize("row", [pytest.param(row, id=row["why"]) for row in ROWS])
@pytest.mark.parametrize("strictness", Strictness)
def test_reason_code(row: dict[str, Any], strictness: Strictness) -> None:
    verdict = Number(strictness=strictness).verify(TASK, row["reply"])
    assert verdict.status == row[strictness]
    if verdict.extracted is not None:
        assert verdict.span is not None and row["reply"][slice(*verdict.span)] == verdict.extracted


def test_the_corpus_is_large_and_no_reply_stands_twice() -> None:
    assert len(ROWS) * len(Strictness) >= 200
    assert len({row["reply"] for row in ROWS}) == len({row["why"] for row in ROWS}) == len(ROWS)


def test_the_table_of_the_documentation_is_this_corpus() -> None:
    page = (Path(__file__).parents[2] / "docs" / "verifiers.md").read_text()
    assert table(ROWS) in page, "put this into docs/verifiers.md:\n" + table(ROWS)


def test_a_looser_strictness_pays_more_and_is_fooled_more() -> None:
    ladder = [Strictness.EXACT, Strictness.TRIMMED, Strictness.ONLY, Strictness.LAST, Strictness.LENIENT]
    for meant in ("right", "hedge"):
        paid = [sum(row["meant"] == meant and row[s] == "correct" for row in ROWS) for s in ladder]
        assert paid == sorted(paid) and paid[0] < paid[-1]


def places(name: str) -> list[Any]:
    text = (Path(__file__).parent / "cases" / f"{name}.jsonl").read_text("utf-8")
    return [pytest.param(name, row, id=f"{name}: {row['why']}") for row in map(json.loads, text.split("\n")[:-1])]


@pytest.mark.parametrize(("name", "row"), places("boxes") + places("fences"))
def test_boxes_and_fences(name: str, row: dict[str, str]) -> None:
    """A status stands behind an equals sign, a text for itself."""
    for strictness in (s for s in Strictness if s is not Strictness.LENIENT):
        found = {"boxes": read_box, "fences": read_fence}[name](row["reply"], strictness)
        assert (found.text or f"={found.status}") == row[strictness], strictness
        if found.text is not None:
            assert found.span is not None and row["reply"][slice(*found.span)] == found.text
