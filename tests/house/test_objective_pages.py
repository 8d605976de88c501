"""The pages on objectives are what the code says now, and the chart was drawn from it."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from gnomon.objectives import OPTIONS, TABLE, objective
from gnomon.viewer.objective import objective_card
from objectives.length_forms import group_mean_bias, own_mean_bias

DOCS = Path(__file__).parents[2] / "docs"
PLOT = "out of date, run python docs/objectives.py --plot docs/objectives.svg"


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("objective_pages", DOCS / "objectives.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_row_has_a_page_and_a_line_of_the_index(writer: ModuleType) -> None:
    index = (DOCS / "objectives.md").read_text()
    assert {page.stem for page in (DOCS / "objectives").glob("*.md")} == set(TABLE), "run python docs/objectives.py"
    lines = re.findall(r"^\| \[\w+\]\(objectives/.*$", index, re.M)
    assert [re.findall(r"\w+", line)[0] for line in lines] == sorted(TABLE)
    assert index == writer.INDEX.format(group=4, rows="\n".join(lines)), "run python docs/objectives.py"


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.every
def test_a_page_says_what_the_row_declares(writer: ModuleType, name: str) -> None:
    row, page = objective(name), (DOCS / "objectives" / f"{name}.md").read_text()
    for text in (
        row.expected_gradient,
        row.equation,
        row.source,
        *(each.text for each in OPTIONS[name].options.values()),
    ):
        assert writer.cell(text) in page, "run python docs/objectives.py"


@pytest.mark.parametrize("name", TABLE)
def test_a_page_is_what_the_code_writes(writer: ModuleType, name: str) -> None:
    found = writer.card_of(name)
    assert (DOCS / "objectives" / f"{name}.md").read_text() == writer.page(found), "run python docs/objectives.py"
    assert writer.index_row(found) in (DOCS / "objectives.md").read_text().splitlines()


@pytest.mark.parametrize("name", TABLE)
def test_the_viewer_shows_the_card_that_the_code_computes(writer: ModuleType, name: str) -> None:
    """Numbers of the chart may differ in their fourth digit, between processors."""
    shown, computed = dict(objective_card(name)), writer.viewer_card(name)
    for p, one, other in zip(shown["p"], shown.pop("relative"), computed.pop("relative"), strict=True):
        assert one == other or one == pytest.approx(other, rel=1e-3), f"run python docs/objectives.py: {p}"
    assert shown == json.loads(json.dumps(computed)), "run python docs/objectives.py"


@pytest.fixture(scope="module")
def drawn() -> dict[str, str]:
    """The numbers that the chart was drawn from, by the name of the row."""
    text = re.search(r"<dc:description>(.*?)</dc:description>", (DOCS / "objectives.svg").read_text(), re.S)
    assert text
    lines = [line.partition(": ") for line in text[1].splitlines()]
    return {name: numbers for names, _, numbers in lines for name in names.split()}


def test_the_chart_has_every_row(drawn: dict[str, str]) -> None:
    assert set(drawn) == set(TABLE), PLOT


@pytest.mark.parametrize("name", TABLE)
def test_the_chart_was_drawn_from_the_curve_of_each(writer: ModuleType, drawn: dict[str, str], name: str) -> None:
    assert drawn[name] == writer.numbers(writer.relative_weights(name)), PLOT


def test_what_divisions_do_to_length_is_what_the_closed_forms_say() -> None:
    text = (DOCS / "which-objective.md").read_text()
    centred = 0.4 * (1 - 0.4) * 7 / 8  # P(right)·E[A | right] in groups of 8.
    told = [float(number) for number in re.findall(r"^\| (?:a|the) .*\| (0(?:\.\d+)?) \|$", text, re.M)]
    expected = [
        0,
        0,
        centred * group_mean_bias(0.1, 8),
        centred * group_mean_bias(0.1, 256),
        centred * own_mean_bias(0.1),
    ]
    assert told == pytest.approx(expected, abs=5e-5)


def test_rows_named_beside_other_trainers_exist_and_those_said_to_be_none_are_none() -> None:
    """Every row of the tables of names has rows of ours, or says that there is none and why."""
    lines = [line for line in (DOCS / "objective-names.md").read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if not line.startswith("| name")]
    cells = [row for row in cells if len(row) == 3]  # The table of measured differences is wider.
    named = {row: re.findall(r"`([a-z_0-9]+)`", row) for _, row, _ in cells}
    assert set().union(*named.values()) <= set(TABLE) and len(cells) > 60
    for name, row, why in cells:
        assert named[row] or (why if row == "none" else "row" in row), name
