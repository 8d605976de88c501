"""The worked example of the documentation meets every check that a shipped row meets, and so does its wrong turn."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from objective_cases import Case
from objective_checks import SUITE

from gnomon.config import RunConfig
from gnomon.objectives import OPTIONS, TABLE, Objective, objective

PAGE = Path(__file__).parents[2] / "docs/adding-an-objective.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.S | re.M)


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    """Every name that the blocks of the page define, in order; the table is left as it was."""
    names: dict[str, Any] = {}
    before = dict(TABLE), dict(OPTIONS)
    for block in BLOCKS:
        exec(block, names)
    names["by name"] = objective("median_baseline")
    names["settings"] = RunConfig(objective={"type": "shrunk_baseline", "weight": 0.5}).objective
    for table, old in zip((TABLE, OPTIONS), before, strict=True):
        table.clear()
        table.update(old)
    return names


def case_of(row: Objective, example: dict[str, Any]) -> Case:
    return Case(name=row.name, row=row, loss=example["median_baseline_loss"])


@pytest.mark.parametrize("check", SUITE)
def test_the_example_meets_every_check(check: str, example: dict[str, Any]) -> None:
    SUITE[check](case_of(example["by name"], example))


@pytest.mark.parametrize("check", ["expectation of 3, correct", "singleton", "textbook, float64"])
def test_its_wrong_turn_meets_some_of_them_not(check: str, example: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        SUITE[check](case_of(example["wrong"], example))


def test_a_recipe_knows_a_row_that_was_added(example: dict[str, Any]) -> None:
    assert example["settings"].options == {"weight": 0.5} and example["settings"].type == "shrunk_baseline"


def test_the_example_did_not_stay_in_the_table() -> None:
    assert not {"median_baseline", "shrunk_baseline"} & (TABLE.keys() | OPTIONS.keys())
