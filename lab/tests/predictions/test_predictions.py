"""A prediction is part of the first record, is scored by its rules, and cannot be changed unnoticed."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

import gnomon
from commands import command
from gnomon.errors import ConfigErrors, RunError
from gnomon.models.folder import SHIPPED
from gnomon.store import Run, RunReader, verify
from gnomon.store.layout import PREDICTION
from gnomon.viewer.report import report
from gnomon_lab.predictions.calibration import calibrations, make_bins
from gnomon_lab.predictions.outcome import ATTESTED, SELF, score, scored_below
from gnomon_lab.predictions.register import register

EXACT = 1e-12
"""A few roundings of float64."""
INSIDE = {"kind": "interval", "metric": "pass@1", "low": 0.5, "high": 0.7, "level": 0.8}
REACHES = {"kind": "reaches", "value": 0.5, "step": 20, "probability": 0.7}
SMALL: dict[str, Any] = {
    "threads": 1,
    "steps": 3,
    "rollout": {"prompts": 2, "group": 2, "max_tokens": 16},
    "eval": {"every": 2, "tasks": 2},
}


def answers(folder: Path):
    with RunReader(folder) as reader:
        scored = score(reader)
    assert scored is not None
    return scored.answers


def test_every_kind_of_question_is_scored(run):
    run("b", {0: 0.2, 40: 0.55})
    questions = [
        INSIDE,
        {"kind": "quantiles", "metric": "pass@1", "at": {"0.1": 0.4, "0.5": 0.6, "0.9": 0.7}},
        REACHES,
        {**REACHES, "value": 0.61},
        {"kind": "interval", "metric": "length", "low": 30.0, "high": 40.0, "level": 0.5},
    ]
    folder = run("a", {0: 0.2, 20: 0.5, 40: 0.63}, questions)
    found = answers(folder)
    assert [answer.state for answer in found] == ["resolved"] * 5
    assert [answer.happened for answer in found] == [True, None, True, False, False]
    expected = [{"interval": 0.2}, {"pinball": 0.015}, {"brier": 0.09}, {"brier": 0.49}, {"interval": 50.0}]
    for answer, scores in zip(found, expected, strict=True):
        for name, value in scores.items():
            assert answer.scores[name] == pytest.approx(value, abs=EXACT)
    assert found[3].value == 0.5, "the largest value by step 20, not the 0.63 of step 40"


def test_a_comparison_names_the_other_run(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("b", {0: 0.2, 40: 0.55})
    wins, ties, apart = (
        run(name, {0: 0.2, 40: rate}, [{"kind": "beats", "other": "runs/b", "probability": 0.9}], env=env)
        for name, rate, env in (("a", 0.6, "countdown"), ("c", 0.55, "countdown"), ("d", 0.6, "arithmetic"))
    )
    assert answers(wins)[0].happened and answers(wins)[0].scores["brier"] == pytest.approx(0.01, abs=EXACT)
    assert (answers(ties)[0].state, answers(apart)[0].state) == ("void", "void")
    assert "both end with 0.550" in answers(ties)[0].why and "differ in env" in answers(apart)[0].why
    shutil.rmtree(tmp_path / "runs" / "b")
    assert answers(wins)[0].state == "open"
    run("b", {0: 0.2, 40: 0.1})
    assert answers(wins)[0].state == "void" and "another run" in answers(wins)[0].why


@pytest.mark.parametrize(
    ("rates", "more", "state", "why"),
    [
        ({0: 0.2, 10: 0.3}, {"status": "interrupted"}, "open", "interrupted after 10 steps"),
        ({0: 0.2, 10: 0.6}, {"status": "interrupted"}, "resolved", "after step 10"),
        ({0: 0.2, 20: 0.3, 40: 0.6}, {}, "resolved", "the largest value"),
        ({0: 0.6, 30: 0.6}, {}, "void", "no evaluation after 1 to 20 steps"),
        ({0: 0.2, 10: 0.6}, {"steps": 10}, "void", "the run has 10 steps"),
        ({0: 0.2, 10: 0.6}, {"failed": 6}, "void", "failed on 6 of 100"),
        ({0: 0.2, 10: 0.6}, {"failed": 5}, "resolved", "after step 10"),
        ({0: 0.2, 10: 0.6}, {"settings": {"rollout.group": 4}}, "void", "rollout.group is 8"),
        ({0: 0.2, 10: 0.6}, {"settings": {"rollout.group": 8}}, "resolved", "after step 10"),
    ],
)
def test_what_decides_and_what_is_void(run, rates, more, state, why):
    (found,) = answers(run("a", rates, [REACHES], **more))
    assert (found.state, bool(found.scores)) == (state, state == "resolved")
    assert why in found.why


def test_an_unfinished_run_decides_nothing_about_its_end(run):
    (found,) = answers(run("a", {0: 0.2, 10: 0.6}, [INSIDE], status="interrupted"))
    assert found.state == "open" and not found.scores


@pytest.mark.long
def test_a_prediction_changes_the_first_record_alone(tmp_path):
    """Resumed and uninterrupted runs with one prediction are equal; without one, a run is as it always was."""
    plain, whole, parted = (tmp_path / name / "run" for name in ("plain", "whole", "parted"))
    register(whole, [INSIDE], by="Ada", settings={})
    parted.mkdir(parents=True)
    shutil.copy(whole / PREDICTION, parted / PREDICTION)
    for folder in (plain, whole):
        gnomon.train("char_count", run=folder, quiet=True, **SMALL).close()
    gnomon.train("char_count", run=parted, quiet=True, **{**SMALL, "budget": {"seconds": 1e-3}}).close()
    for _ in range(4):
        gnomon.resume(parted, quiet=True).close()
    with RunReader(plain) as a, RunReader(whole) as b, RunReader(parted) as c:
        assert c.status == "finished" and b.fingerprint == c.fingerprint != a.fingerprint
        genesis = dict(b.genesis)
        assert genesis.pop("prediction") == b.prediction and genesis == a.genesis and not a.prediction
        assert [r.body for r in a.records()][1:] == [r.body for r in b.records()][1:]
    assert verify(whole) and verify(parted) and verify(plain)
    shown = command("show", str(whole))
    assert "prediction   by Ada" in shown.stdout and "self-attested" in shown.stdout
    assert json.loads(command("show", str(whole), "--json").stdout)["prediction"]["answers"][0]["state"] == "resolved"
    assert "final pass@1 from 0.5 to 0.7" in report(whole)
    assert "Prediction" not in report(plain)


def added(folder: Path) -> str:
    shutil.copy(folder.parent / "b" / PREDICTION, folder / PREDICTION)
    return "added after the run began"


def removed(folder: Path) -> str:
    (folder / PREDICTION).unlink()
    return "is missing"


def bettered(folder: Path) -> str:
    path = folder / PREDICTION
    path.write_text(path.read_text().replace('"low": 0.5', '"low": 0.6'))
    return "changed after the run began"


def test_what_was_changed_afterwards_is_found(run):
    without, changed, gone = (
        run("a", {0: 0.2, 40: 0.6}),
        run("b", {0: 0.2, 40: 0.6}, [INSIDE]),
        run("c", {0: 0.2, 40: 0.6}, [INSIDE]),
    )
    for folder, tamper in ((without, added), (changed, bettered), (gone, removed)):
        assert verify(folder)
        why = tamper(folder)
        found = verify(folder)
        assert [problem.code for problem in found.problems] == ["E405"] and why in str(found)
        with RunReader(folder) as reader, pytest.raises(RunError):
            score(reader)
        assert "prediction" in command("show", str(folder)).stdout, "the rest of the run is shown all the same"


def test_a_chain_that_is_built_anew_is_found_only_by_who_saw_the_hash(run):
    """Its owner can write every record again. Then the run verifies, and the published hash is another."""
    folder = run("a", {0: 0.2, 40: 0.6}, [{**INSIDE, "low": 0.3}])
    with RunReader(folder) as reader:
        published, recipe, manifest = reader.prediction, reader.recipe, reader.manifest
        records = list(reader.records())
        assert score(reader, f"gnomon prediction sha256:{published} by Ada").attested == ATTESTED
    again = folder.parent / "again"
    register(again, [INSIDE], by="Ada", settings={})
    config = {name: value for name, value in records[0].body.items() if name != "prediction"}
    with Run.create(again, recipe=recipe, manifest=manifest, genesis=config) as store:
        store.append(records[1:])
        store.set_status("finished")
    assert verify(again)
    with RunReader(again) as reader:
        assert score(reader).attested == SELF
        with pytest.raises(RunError, match="E419"):
            score(reader, published)


def test_a_prediction_comes_before_the_run(run, tmp_path):
    begun = run("a", {0: 0.2, 40: 0.6})
    with pytest.raises(RunError, match="E416"):
        register(begun, [INSIDE], by="Ada", settings={})
    register(tmp_path / "runs" / "b", [INSIDE], by="Ada", settings={})
    with pytest.raises(RunError, match="E415"):
        register(tmp_path / "runs" / "b", [INSIDE], by="Ada", settings={})
    first = (tmp_path / "runs" / "b" / PREDICTION).read_bytes()
    register(tmp_path / "runs" / "c", [INSIDE], by="Ada", settings={})
    assert (tmp_path / "runs" / "c" / PREDICTION).read_bytes() != first, "equal forecasts have different hashes"


@pytest.mark.parametrize(
    "question",
    [
        {**INSIDE, "low": 0.8},
        {**INSIDE, "level": 1.0},
        {**INSIDE, "metric": "loss"},
        {**INSIDE, "high": float("inf")},
        {**REACHES, "probability": 1.1},
        {**REACHES, "step": 0},
        {"kind": "quantiles", "metric": "pass@1", "at": {"0.5": 0.6, "0.9": 0.5}},
        {"kind": "quantiles", "metric": "pass@1", "at": {"1.5": 0.6}},
        {"kind": "quantiles", "metric": "pass@1", "at": {}},
        {**INSIDE, "low": 40, "high": 70},
        {**REACHES, "value": 50},
        {"kind": "quantiles", "metric": "truncated", "at": {"0.5": 10}},
        {"kind": "quantiles", "metric": "length", "at": {"0.5": -1}},
        {"kind": "other"},
    ],
)
def test_what_cannot_be_decided_is_refused(question, tmp_path):
    with pytest.raises(ConfigErrors, match="E080"):
        register(tmp_path / "a", [question], by="Ada", settings={})
    assert not (tmp_path / "a").exists()


def test_the_command_registers_scores_and_collects(tmp_path):
    run = tmp_path / "runs" / "a"
    words = ["env=char_count", "steps=1", "--pass-at-1", "0:1", "--length", "0.5=10", "--reaches", "0.99@1=0.05"]
    done = command("predict", str(run), *words, "--by", "Ada", "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["settings"] == {"env.type": "char_count", "budget.steps": 1} and len(facts["questions"]) == 3
    gnomon.train("char_count", run=run, quiet=True, **{**SMALL, "steps": 1}).close()
    scored = command("predict", "score", str(run), "--seen", facts["line"])
    assert scored.returncode == 0 and "hash equals" in scored.stdout and "Brier 0.003" in scored.stdout
    assert "too few events (1 of at least 20)" in command("predict", "calibration", str(tmp_path)).stdout
    refused = command("predict", "score", str(run), "--seen", "sha256:0123")
    assert refused.returncode == 1 and "E419" in refused.stderr
    wrong = command("predict", str(tmp_path / "b"), "--pass-at-1", "high", "--beats", "b")
    assert wrong.returncode == 2 and wrong.stderr.count("E081") == 2


OWN = """
from dataclasses import dataclass
from gnomon.envs import CharCount

@dataclass(frozen=True, kw_only=True)
class Own(CharCount):
    pass
"""


def test_a_prediction_names_what_is_run_and_not_how_it_was_spelt(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    shutil.copytree(SHIPPED["tiny"], tmp_path / "model")
    few = ["steps=1", "prompts=2", "group=2", "max_tokens=8", "eval.tasks=2"]
    words = ["own.py:Own", "policy=./model", "lr=1e-4", *few]
    done = command("predict", "runs/a", *words, "--pass-at-1", "0:1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    following = shlex.split(done.stdout.partition("next: gnomon ")[2])
    changed = command("train", *[word for word in words if word != "lr=1e-4"], "run=runs/a", cwd=tmp_path)
    assert changed.returncode == 2 and "E422" in changed.stderr and "fix: optim.lr=0.0001" in changed.stderr
    assert command(*following, cwd=tmp_path).returncode == 0
    scored = command("predict", "score", "runs/a", "--json", cwd=tmp_path)
    assert json.loads(scored.stdout)["answers"][0]["state"] == "resolved", scored.stdout
    gone = command("predict", "runs/b", "env=nowhere.py:Own", "--pass-at-1", "0:1", cwd=tmp_path)
    assert gone.returncode == 2 and "E021" in gone.stderr, "no run would begin"


def forecasts(run, count: int, rate: float, probability: float) -> None:
    """Runs that end at a rate, each with one forecast that it reaches .5 by its end."""
    for number in range(count):
        question = {**REACHES, "step": 40, "probability": probability}
        run(f"{probability}-{rate}-{number}", {0: 0.2, 40: rate}, [question])


def test_calibration_over_runs(run, tmp_path):
    """Ten forecasts of .8, of which seven happen; ten of .2, of which one happens."""
    for count, rate, probability in ((7, 0.6, 0.8), (3, 0.4, 0.8), (1, 0.6, 0.2), (9, 0.4, 0.2)):
        forecasts(run, count, rate, probability)
    late = run("late", {0: 0.2, 40: 0.6}, [INSIDE], by="Eve")
    bettered(late)
    (found,) = calibrations(scored_below(tmp_path))
    assert (found.by, found.runs, found.events, found.base_rate) == ("Ada", 20, 20, 0.4)
    assert found.left_out == {str(late): "prediction.json was changed after the run began"}
    quadratic = (7 * 0.04 + 3 * 0.64 + 1 * 0.64 + 9 * 0.04) / 20
    assert found.brier == pytest.approx(quadratic, abs=EXACT)
    assert found.skill == pytest.approx(1 - quadratic / 0.24, abs=EXACT)
    assert [(each.stated, each.happened.value, each.happened.n) for each in found.bins] == [
        (pytest.approx(0.2, abs=EXACT), 0.1, 10),
        (pytest.approx(0.8, abs=EXACT), 0.7, 10),
    ]
    low, high = found.bins[1].happened.low, found.bins[1].happened.high
    # Wilson's interval of 7 in 10, from R: prop.test(7, 10, correct=FALSE).
    assert (low, high) == (pytest.approx(0.396778, abs=1e-6), pytest.approx(0.892209, abs=1e-6))


def test_scores_are_averaged_within_a_run_first(run, tmp_path):
    """One run with three forecasts counts as much as one with a single forecast."""
    run("a", {0: 0.2, 40: 0.6}, [{**REACHES, "step": 40, "probability": 1.0}] * 3)
    run("b", {0: 0.2, 40: 0.4}, [{**REACHES, "step": 40, "probability": 1.0}])
    (found,) = calibrations(scored_below(tmp_path))
    assert (found.brier, found.base_rate, found.events) == (0.5, 0.5, 4) and not found.bins


def test_bins_have_equal_counts_and_equal_probabilities_share_one():
    spread = make_bins([(k / 100, k % 2 == 0) for k in range(100)])
    assert [each.happened.n for each in spread] == [20] * 5
    assert [each.happened.n for each in make_bins([(0.7, True)] * 30)] == [30]
    assert [each.happened.n for each in make_bins([(0.1, True)] * 5 + [(0.9, True)] * 25)] == [5, 25]


def test_coverage_of_intervals(run, tmp_path):
    for number, rate in enumerate((0.6, 0.55, 0.9)):
        run(str(number), {0: 0.2, 40: rate}, [INSIDE])
    (found,) = calibrations(scored_below(tmp_path), "Ada")
    assert (found.coverage["0.8"].value, found.coverage["0.8"].n) == (pytest.approx(2 / 3, abs=EXACT), 3)
    assert calibrations(scored_below(tmp_path), "Eve") == []
