"""`gnomon ablate`, `gnomon scaling` and `gnomon compare`, on one small ablation and without it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gnomon.cli import app
from gnomon.comparison.runs import Runs, compare_groups, comparison_text, group_runs
from gnomon.errors import GnomonError, RunError
from gnomon.types import Conclusion
from gnomon_lab.studies import load
from gnomon_lab.studies.folder import StudyFolder
from gnomon_lab.studies.outcome import Outcome
from gnomon_lab.studies.written import ablation, base_of, factors_of, possible, scaling, scaling_text

TINY = ["steps=1", "prompts=2", "group=2", "eval.tasks=8", "workers.count=1"]


def invoked(*words: str) -> str:
    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def ablated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of an ablation of one factor, with what the command printed."""
    folder = tmp_path_factory.mktemp("studies") / "ablation"
    words = ["ablate", "char_count", *TINY, "--factor", "optim.lr=1e-9", "--factor", "objective=maxrl"]
    return folder, invoked(*words, "--seeds", "2", "--jobs", "2", "--folder", str(folder))


@pytest.mark.long
def test_an_ablation_is_a_registered_study_with_a_table(ablated: tuple[Path, str]) -> None:
    folder, printed = ablated
    study = StudyFolder(folder).study
    assert set(study.arms) == {"base", "optim.lr=1e-9"} and len(study.claims) == 1
    assert "left out: objective=maxrl (maxrl needs rewards of 0 or 1" in printed
    table = printed.partition("a margin of ±0.05")[2]
    assert "optim.lr=1e-9" in table and any(word in table for word in ("matters", "undecided", "does not matter"))
    words = ["ablate", "char_count", *TINY, "--factor", "optim.lr=1e-9", "--seeds", "2", "--folder", str(folder)]
    assert "done in" not in invoked(*words), "the same command goes on, and there is nothing left to do"


def test_seeds_that_met_different_tasks_have_no_interval_over_tasks() -> None:
    def runs(correct: dict[int, dict[str, float]]) -> Runs:
        finals = {seed: sum(of.values()) / len(of) for seed, of in correct.items()}
        return Runs(settings={}, folders={}, finals=finals, correct=correct)

    first = runs({0: {"a": 0.0, "b": 1.0}, 1: {"a": 0.0, "b": 0.5}})
    assert compare_groups([first, runs({0: {"a": 1.0, "b": 1.0}, 1: {"a": 0.5, "b": 1.0}})])[0].new_tasks
    assert compare_groups([first, runs({0: {"a": 1.0, "b": 1.0}, 1: {"a": 0.5, "c": 1.0}})])[0].new_tasks is None


@pytest.mark.long
def test_runs_are_compared_by_seed_and_one_seed_by_task(ablated: tuple[Path, str]) -> None:
    runs = ablated[0] / "runs"
    one, other = runs / "base", runs / "optim.lr=1e-9"
    groups = group_runs([one / "0", one / "1", other / "0", other / "1"])
    found = compare_groups(groups)[0]
    assert len(groups) == 2 and found.seeds == [0, 1] and found.unit == "seeds"
    assert set(found.changed) == {"optim.lr"} and found.changed["optim.lr"][1] == 1e-9
    differences = [groups[1].finals[seed] - groups[0].finals[seed] for seed in (0, 1)]
    assert found.difference and found.difference.mean == pytest.approx(sum(differences) / 2)
    assert found.new_tasks and found.new_tasks.mean == pytest.approx(found.difference.mean), "8 different tasks"
    assert "for other tasks too" in comparison_text(groups, [found])
    alone = compare_groups(group_runs([one / "0", other / "0"]))[0]
    assert alone.unit == "tasks" and alone.difference and alone.difference.seeds == 8
    assert alone.difference.mean == pytest.approx(differences[0])
    assert compare_groups(group_runs([one / "0", other / "1"]))[0].difference is None
    text = invoked("compare", str(one / "0"), str(one / "1"), str(other / "0"), str(other / "1"))
    assert "over 2 seeds" in text and "optim.lr" in text and "does not decide a claim" in text
    assert text.strip() == comparison_text(groups, compare_groups(groups)).strip()


def test_what_cannot_be_compared_is_refused(ablated: tuple[Path, str]) -> None:
    run = ablated[0] / "runs" / "base" / "0"
    with pytest.raises(RunError, match="E429"):
        group_runs([run, run])
    with pytest.raises(GnomonError, match="E097"):
        CliRunner().invoke(app, ["compare", str(run)], catch_exceptions=False)
    with pytest.raises(GnomonError, match="E097"):
        CliRunner().invoke(app, ["scaling", "char_count", "group=2"], catch_exceptions=False)


@pytest.mark.parametrize("env", ["char_count", "countdown", "kuhn_poker"])
def test_the_usual_changes_are_changes_that_the_recipe_takes(env: str) -> None:
    """Ten at least, whatever the environment; what it does not take is named with the reason."""
    config = base_of(env, {})
    factors, refused = possible(env, {}, factors_of(config))
    assert len(factors) >= 10 and all(refused.values())
    for name, arm in factors.items():
        assert base_of(env, arm) != config, name


def test_the_same_words_write_the_same_file(tmp_path: Path) -> None:
    written = ablation("char_count", {"budget.steps": 3}, {"x": {"optim.lr": 1e-4}}, 3, 0.05)
    assert written == ablation("char_count", {"budget.steps": 3}, {"x": {"optim.lr": 1e-4}}, 3, 0.05)
    (tmp_path / "study.py").write_text(written)
    assert load(tmp_path / "study.py").claims[0].within == 0.05
    (tmp_path / "study.py").write_text(scaling("char_count", {}, "examples", [1, 3], 3))
    assert load(tmp_path / "study.py").arms["3"] == {"rollout.tasks": [0, 1, 2]}


def test_a_straight_line_has_its_slope_and_misses_nothing() -> None:
    """pass@1 of .1 + .05·log2(value), by hand, and a last value that lies .1 above the line."""
    values, seeds = [1, 2, 4, 16], [0, 1, 2]
    line = {value: 0.1 + 0.05 * math.log2(value) for value in values}
    measured = {str(v): {s: {"final": line[v] + 0.1 * (v == 16)} for s in seeds} for v in values}
    found = Outcome(verdict=Conclusion.PASS, claims=[], seeds=seeds, measured=measured)
    text = scaling_text(found, "rollout.group", values)
    assert "misses rollout.group=16 by +0.100" in text
    flat = {str(v): {s: {"final": line[v]} for s in seeds} for v in values}
    text = scaling_text(Outcome(verdict=Conclusion.PASS, claims=[], seeds=seeds, measured=flat), "x", values)
    assert "a doubling adds +0.050" in text and "misses x=16 by " in text
