"""Faults that are planted in a small trainer are found and named; its sound twin passes."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from torch import Tensor

from commands import command
from conformance.small_trainer import FAULTS, ONLY, gradient
from gnomon.conformance import Grade, Trainer, conform, trainer

HERE = Path(__file__).parent
SMALL = f"{HERE / 'small_trainer.py'}:gradient"


def small(fault: str = "") -> Trainer:
    def asked(body: dict[str, Any]) -> dict[str, Tensor]:
        rows = [SimpleNamespace(**row) for row in body["rows"]]
        return gradient(SimpleNamespace(**{**body, "rows": rows}), fault)

    return Trainer(gradient=asked, objectives={})


@pytest.mark.every
@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "dapo"])
def test_a_sound_trainer_passes_every_check(name: str) -> None:
    cells = conform(small(), [name])
    assert [cell for cell in cells if cell.grade is not Grade.PASS] == [] and len(cells) == 14


ALSO = {
    "one advantage": {"expected gradient", "order of rows"},
    "no end token": {"expected gradient"},
    "no baseline": {"expected gradient", "groups of one"},
    "own length": {"expected gradient"},
    "always filters": {"expected gradient"},
}
"""Checks that a fault fails beside the one that names it."""


@pytest.mark.every
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "neighbours"])
def test_a_planted_fault_is_named_and_no_other(fault: str) -> None:
    check, text = FAULTS[fault]
    wrong = {cell.check: cell for cell in conform(small(fault), [ONLY.get(fault, "grpo")]) if cell.grade != "PASS"}
    assert wrong[check].grade is Grade.FAIL and wrong[check].text == text
    assert set(wrong) == {check} | ALSO.get(fault, set())
    assert all(cell.grade is Grade.FAIL for cell in wrong.values())


def test_what_depends_on_a_plain_step_is_unknown_where_that_is_wrong() -> None:
    cells = {cell.check: cell for cell in conform(small("neighbours"), ["grpo"])}
    assert cells["one step"].grade is cells["order of rows"].grade is Grade.FAIL
    assert cells["order of rows"].text == FAULTS["neighbours"][1]
    assert cells["padding"].grade is cells["KL penalty"].grade is Grade.UNKNOWN
    assert cells["micro-batches"].grade is Grade.PASS


def test_the_command_asks_a_trainer_in_an_interpreter_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        f"import sys\nsys.path.insert(0, {str(HERE)!r})\nimport small_trainer\n"
        "OBJECTIVES = {'our_dapo': 'dapo'}\n"
        "def gradient(batch):\n"
        "    if batch.kl:\n        raise NotImplementedError('we have no penalty')\n"
        "    batch.objective = 'dapo'\n"
        "    print('a line of its own')\n"
        "    return small_trainer.gradient(batch, 'mean of means')\n"
    )
    picture = tmp_path / "badge.svg"
    done = command("conform", f"{file}:gradient", "--python", sys.executable, "--json", "--badge", str(picture))
    cells = {cell["check"]: cell for cell in json.loads(done.stdout)}
    assert done.returncode == 1 and len(cells) == 14
    assert {name for name, cell in cells.items() if cell["grade"] == "FAIL"} == {"micro-batches"}
    assert (cells["KL penalty"]["grade"], cells["KL penalty"]["text"]) == ("refused", "we have no penalty")
    assert {cell["objective"] for cell in cells.values()} == {"our_dapo"}
    texts = [text.text for text in ElementTree.parse(picture).iter() if text.tag.endswith("text")]
    assert texts == ["exact gradients", "12 of 13 checks"] and "#e05d44" in picture.read_text()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nobody"], "E095", "nobody is not a trainer"),
        ([SMALL, "--python", "/nowhere/python"], "E095", "interpreter cannot be started"),
        ([SMALL], "E096", "lists no objectives"),
        ([SMALL, "grop"], "E096", "grop"),
        ([SMALL, "ppo"], "E096", "ppo"),
    ],
)
def test_what_cannot_be_tested_is_an_error(words: list[str], code: str, said: str) -> None:
    done = command("conform", *words)
    assert done.returncode == 2 and code in done.stderr and said in done.stderr and "fix: " in done.stderr


def test_an_error_of_the_trainer_is_shown_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("def gradient(batch):\n    return batch.rows[99]\n")
    done = command("conform", f"{file}:gradient", "grpo")
    assert done.returncode == 1 and "E546" in done.stderr and "line 2, in gradient" in done.stderr
    assert "IndexError" in done.stderr and "Traceback" not in done.stderr
    file.write_text("raise SystemExit(3)\n")
    ended = command("conform", f"{file}:gradient", "grpo")
    assert ended.returncode == 1 and "E546" in ended.stderr and "exit code is 3" in ended.stderr


@pytest.mark.long
@pytest.mark.skipif(not find_spec("trl"), reason="TRL is not installed")
def test_dr_grpo_of_trl_divides_by_the_standard_deviation() -> None:
    with trainer("trl") as theirs:
        cells = {cell.check: cell for cell in conform(theirs, ["dr_grpo"])}
    assert cells["one step"].text == "the advantage is divided by the standard deviation of the group (over N−1)"
    assert {check for check, cell in cells.items() if cell.grade is Grade.FAIL} == {"one step", "expected gradient"}
