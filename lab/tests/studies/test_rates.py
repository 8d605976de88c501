"""A learning rate for each arm, and budgets that are equal: on one study of four short runs."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from gnomon.comparison.measures import curve
from gnomon.errors import ConfigErrors
from gnomon.store import RunReader
from gnomon_lab.studies import at_step, at_tokens, final, load
from gnomon_lab.studies.command import run_study, verify_study
from gnomon_lab.studies.folder import Cell, StudyFolder
from gnomon_lab.studies.page import rates
from gnomon_lab.studies.rates import chosen_rate, rate_cells

TEXT = """
from gnomon_lab.studies import Claim, Study

study = Study(
    question="Is anything right?",
    why="A sweep, then the runs that decide.",
    base="char_count",
    settings={"steps": 2, "prompts": 2, "group": 2, "eval.tasks": 8, "eval.every": 1, "workers.count": 1},
    arms={"arm": {}},
    seeds=(0, 1),
    rates=(1e-9, 1e-2),
    rate_seeds=(5,),
    claims=[Claim(measure="final", arm="arm", above=-1.0)],
    prediction={"PASS": 1.0, "FAIL": 0.0, "INCONCLUSIVE": 0.0},
)
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    scratch = tmp_path_factory.mktemp("swept")
    (scratch / "sweep.py").write_text(TEXT)
    run_study(str(scratch / "sweep.py"), scratch / "sweep", jobs=2)
    return StudyFolder(scratch / "sweep")


@pytest.mark.long
def test_an_arm_runs_at_the_rate_that_was_best_on_other_seeds_and_tasks(swept: StudyFolder) -> None:
    trials = rate_cells(swept.study)
    assert [(cell.seed, cell.rate) for cell in trials] == [(5, 1e-9), (5, 1e-2)]
    reached = {cell.rate: swept.read(cell, final) for cell in trials}
    best = chosen_rate(swept, "arm")
    assert reached[best] == max(reached.values()) and swept.result and swept.result["rates"] == {"arm": best}
    recipes = {cell: tomllib.loads((swept.run(cell) / "recipe.toml").read_text()) for cell in [*trials, Cell("arm", 0)]}
    assert recipes[Cell("arm", 0)]["optim"]["lr"] == best and "seed" not in recipes[Cell("arm", 0)]["env"]
    assert all(recipes[cell]["optim"]["lr"] == cell.rate and recipes[cell]["env"]["seed"] for cell in trials)
    assert f"Learning rates: arm {best:g}; the best of 1e-09, 0.01" in (swept.folder / "page.md").read_text()


@pytest.mark.long
def test_the_runs_of_a_sweep_are_verified_too(swept: StudyFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify_study(swept.folder) == 0
    recipe = swept.run(rate_cells(swept.study)[0]) / "recipe.toml"
    before = recipe.read_text()
    recipe.write_text(before.replace("seed = 5", "seed = 6", 1))
    try:
        assert verify_study(swept.folder) == 1 and "E405" in capsys.readouterr().out
    finally:
        recipe.write_text(before)


def test_a_sweep_on_seeds_that_decide_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sweep.py").write_text(TEXT.replace("rate_seeds=(5,)", "rate_seeds=(1,)"))
    with pytest.raises(ConfigErrors, match="seeds that also decide"):
        load(tmp_path / "sweep.py")


def test_pass_at_1_at_equal_tokens_lies_on_the_line_between_evaluations(swept: StudyFolder) -> None:
    with RunReader(swept.run(Cell("arm", 0))) as reader:
        tokens = [int(step["metrics"]["tokens"]) for step in reader.metrics()]
        points = curve(reader)
        assert [step for step, _ in points] == [0, 1, 2] and points[-1][1] == final(reader)
        assert at_step(1)(reader) == points[1][1]
        assert at_tokens(0)(reader) == points[0][1] and at_tokens(sum(tokens))(reader) == pytest.approx(final(reader))
        part = tokens[0] // 2
        line = points[0][1] + (points[1][1] - points[0][1]) * part / tokens[0]
        assert at_tokens(part)(reader) == pytest.approx(line)
        with pytest.raises(ValueError, match="fewer than"):
            at_tokens(sum(tokens) + 1)(reader)
        with pytest.raises(ValueError, match="after 0, 1, 2"):
            at_step(7)(reader)


def test_each_arm_may_have_rates_of_its_own(tmp_path: Path) -> None:
    """One of them an optimiser that has no default rate. An arm that there is not is refused."""
    file = tmp_path / "two.py"
    arms = TEXT.replace('{"arm": {}}', '{"arm": {}, "sgd": {"optim.type": "sgd"}, "usual": {}}')
    file.write_text(arms.replace("(1e-9, 1e-2)", '{"arm": (1e-9, 1e-2), "sgd": (3.0,)}'))
    study = load(file)
    assert [(cell.arm, cell.rate) for cell in rate_cells(study)] == [("arm", 1e-9), ("arm", 1e-2), ("sgd", 3.0)]
    assert study.config("sgd", 0, 3.0).optim.lr == 3.0 and not study.rates_of("usual")
    chosen = {"arm": 1e-2, "sgd": 3.0}
    assert "best of 1e-09, 0.01 for arm; 3 for sgd on seeds 5." in rates(study, chosen)
    file.write_text(arms.replace("(1e-9, 1e-2)", '{"sdg": (3.0,)}'))
    with pytest.raises(ConfigErrors, match="there is no arm 'sdg'"):
        load(file)
