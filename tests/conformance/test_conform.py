"""Faults that are planted in a small trainer are found and named; its sound twin passes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from torch import Tensor

from commands import command
from conformance.small_trainer import FAULTS, ONLY, gradient
from gnomon.conformance import Grade, Trainer, conform, process, trainer
from gnomon.conformance.checks import row_of, step
from gnomon.conformance.policy import policies
from gnomon.conformance.subject import Subject
from gnomon.errors import GnomonError
from gnomon.objectives import objective

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
    "no first token": {"expected gradient"},
    "over the step": {"expected gradient"},
    "no baseline": {"expected gradient", "groups of one"},
    "own length": {"expected gradient"},
    "always filters": {"expected gradient"},
}
"""Checks that a fault fails beside the one that names it."""


@pytest.mark.every
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "neighbours"])
def test_a_planted_fault_is_named_and_no_other(fault: str) -> None:
    check, text = FAULTS[fault]
    cells = conform(small(fault), [ONLY.get(fault, "grpo")])
    wrong = {cell.check: cell for cell in cells if cell.grade not in ("PASS", "refused")}
    assert wrong[check].grade is Grade.FAIL and wrong[check].text == text
    assert set(wrong) == {check} | ALSO.get(fault, set())
    assert all(cell.grade is Grade.FAIL for cell in wrong.values())


def test_what_depends_on_a_plain_step_is_unknown_where_that_is_wrong() -> None:
    cells = {cell.check: cell for cell in conform(small("neighbours"), ["grpo"])}
    assert cells["one step"].grade is cells["order of rows"].grade is Grade.FAIL
    assert cells["order of rows"].text == FAULTS["neighbours"][1]
    assert cells["padding"].grade is cells["KL penalty"].grade is Grade.UNKNOWN
    assert cells["micro-batches"].grade is Grade.PASS


@pytest.mark.long
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


BROKEN = {
    "return batch.rows[99]": ("E546", "IndexError"),
    "raise SystemExit(3)": ("E546", "exit code is 3"),
    "__import__('os').close(0); return {}": ("E096", "no gradient of some parameters"),
    "return None": ("E096", "gradient(batch) returned NoneType"),
    "return {'lm_head.weight': None}": ("E096", "the gradient of lm_head.weight is NoneType"),
    "return {name: 0.0 for name in NAMES}": ("E096", "of another shape"),
}
"""Bodies of a trainer's function, with the code and a piece of what is said."""


@pytest.mark.every
@pytest.mark.parametrize("body", BROKEN)
def test_what_is_no_gradient_is_an_error_with_a_fix(body: str, tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    names = [name for name in policies()[0].shapes]
    file.write_text(f"NAMES = {names!r}\n\ndef gradient(batch):\n    {body}\n")
    with trainer(f"{file}:gradient") as theirs, pytest.raises(GnomonError) as raised:
        conform(theirs, ["grpo"])
    code, said = BROKEN[body]
    assert raised.value.code == code and said in str(raised.value) and "fix: " in str(raised.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nothing_of_that_name\n", "No module named 'nothing_of_that_name'"),
        ("def gradient(batch:\n", "was never closed"),
        ("OBJECTIVES = ['grpo']\ndef gradient(batch): ...\n", "OBJECTIVES must be a dictionary"),
        ("def gradients(batch): ...\n", "it has no function gradient"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_an_error(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text(text)
    done = command("conform", f"{file}:gradient", "grpo")
    assert done.returncode == 1 and "E546" in done.stderr and said in done.stderr
    assert "fix: " in done.stderr and "Traceback" not in done.stderr


def test_a_trainer_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "SECONDS", 2.0)
    file = tmp_path / "slow.py"
    file.write_text("import time\ndef gradient(batch):\n    time.sleep(600)\n")
    with trainer(f"{file}:gradient") as theirs, pytest.raises(GnomonError, match="did not answer within 2 s"):
        conform(theirs, ["grpo"])


def test_a_part_without_a_gradient_and_a_type_of_16_bits_are_named() -> None:
    def changed(change: Callable[[str, Tensor], Tensor]) -> str:
        sound = small().gradient
        return step(Subject(
            trainer=Trainer(gradient=lambda body: {k: change(k, v) for k, v in sound(body).items()}, objectives={}),
            name="grpo", row=objective("grpo"), policy=policies()[0], reference=policies()[1],
        )).text  # fmt: skip

    assert changed(lambda name, value: value * (name != "lm_head.weight")) == "the gradient of lm_head.weight is 0"
    assert changed(lambda name, value: value.half()) == "the rounding of a type of 16 bits is in it"


def adapter(name: str) -> ModuleType:
    spec = spec_from_file_location(name, process.ADAPTERS[name])
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", process.ADAPTERS)
def test_an_adapter_names_rows_that_can_be_tested_and_loads_without_its_library(name: str) -> None:
    module = adapter(name)
    assert [row_of(row).name for row in module.OBJECTIVES.values()] and callable(module.gradient)


@pytest.mark.every
@pytest.mark.parametrize("name", [name for name in process.ADAPTERS if not find_spec(name)])
def test_a_missing_library_is_an_error_that_names_an_interpreter(name: str) -> None:
    done = command("conform", name)
    assert done.returncode == 1 and "E546" in done.stderr and "No module named '" in done.stderr
    assert "--python" in done.stderr and "Traceback" not in done.stderr


CLEAN = {
    "verl": ("grpo, seq-mean-token-mean", {"groups of one", "equal rewards"}),
    "openrlhf": ("group_norm, seq-mean-token-mean", {"equal rewards", "KL penalty"}),
    "areal": ("dapo", set()),
}
"""An objective whose plain step is right, and the checks that it fails."""


@pytest.mark.every
@pytest.mark.parametrize("name", CLEAN)
def test_libraries_have_the_grades_of_the_scoreboard(name: str) -> None:
    python = os.environ.get(f"GNOMON_{name.upper()}_PYTHON") or (sys.executable if find_spec(name) else "")
    if not python:
        pytest.skip(f"{name} is not installed, and GNOMON_{name.upper()}_PYTHON names no interpreter that has it")
    mine, wrong = CLEAN[name]
    with trainer(name, python) as theirs:
        cells = {cell.check: cell for cell in conform(theirs, [mine])}
    assert {check for check, cell in cells.items() if cell.grade is Grade.FAIL} == wrong
    assert cells["one step"].grade is cells["micro-batches"].grade is cells["clip edges"].grade is Grade.PASS


@pytest.mark.long
@pytest.mark.skipif(not find_spec("trl"), reason="TRL is not installed")
def test_dr_grpo_of_trl_divides_by_the_standard_deviation() -> None:
    with trainer("trl") as theirs:
        cells = {cell.check: cell for cell in conform(theirs, ["dr_grpo"])}
    assert cells["one step"].text == "the advantage is divided by the standard deviation of the group (over N−1)"
    assert {check for check, cell in cells.items() if cell.grade is Grade.FAIL} == {"one step", "expected gradient"}
