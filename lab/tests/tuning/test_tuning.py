"""`gnomon tune-objective`: from what a run has solved to a parameter."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from commands import command
from gnomon.objectives import objective, regime_of
from gnomon.store import Record, Run, RunStatus
from gnomon.theory import Posterior, best_member, best_scale, gain_terms, metric
from gnomon_lab.update_scale import scale_of

COUNTS = [[0, 1, 4], [2, 4, 4]]
"""Successes among four rollouts, by step and task."""


def write(
    folder: Path,
    counts: Sequence[Sequence[int]],
    status: RunStatus = RunStatus.FINISHED,
    config: Mapping[str, object] | None = None,
) -> Path:
    """A run whose groups of four had so many successes; the last rollout of the first group broke the judge."""
    with Run.create(folder, recipe="seed = 1\n", manifest={}, genesis={"config": config or {}}) as run:
        for step, tasks in enumerate(counts):
            for task, right in enumerate(tasks):
                statuses = ["correct"] * right + ["wrong"] * (4 - right)
                if step == task == 0:
                    statuses[3] = "failed"
                made = [
                    Record(kind="rollout", step=step, task=task, sample=i, body={"status": s, "reward": 0.0})
                    for i, s in enumerate(statuses)
                ]
                run.append(made)
            run.append([Record(kind="step", step=step, body={"metrics": {}})])
        run.set_status(status)
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("tune") / "r", COUNTS)


def test_it_finds_the_member_that_the_counts_speak_for(run: Path) -> None:
    facts = json.loads(command("tune-objective", str(run), "--metric", "pass@4", "--noise", "2", "--json").stdout)
    seen = {Posterior(0, 3): 1.0, Posterior(1, 3): 1.0, Posterior(2, 2): 1.0, Posterior(4, 0): 3.0}
    found = {Posterior(c["successes"], c["failures"]): c["groups"] for c in facts["counts"]}
    assert found == seen and facts["groups"] == 6 and facts["group"] == 4
    assert facts["solved"] == pytest.approx((0 + 1 / 4 + 2 / 4 + 3) / 6)
    best = best_member("A", gain_terms(seen, group=4, of=metric("pass@4"), noise=2.0))
    (row,) = facts["best"]
    assert (row["parameter"], row["share"]) == (best.parameter, pytest.approx(best.share))
    curve = dict(row["curve"])
    assert row["share"] == max(curve.values()) and row["reinforce"] == curve[0.0] and row["maxrl"] == curve[1.0]


def test_it_says_so_in_words_that_can_be_pasted(run: Path) -> None:
    done = command("tune-objective", str(run), "--metric", "log p", "--family", "C", "--noise", "4", "--group", "8")
    assert done.returncode == 0, done.stderr
    assert "log p, family C, groups of 8: 6 groups, 62% of their rollouts correct" in done.stdout
    seen = {Posterior(0, 3): 1.0, Posterior(1, 3): 1.0, Posterior(2, 2): 1.0, Posterior(4, 0): 3.0}
    best = best_member("C", gain_terms(seen, group=8, of=metric("log p"), noise=4.0)).parameter
    chosen = f"objective.parameter={best:g} rollout.group=8"
    wanted = f"gnomon train {run}/recipe.toml objective=rl2ml objective.family=C {chosen}"
    assert wanted in done.stdout


def test_without_a_noise_it_tells_of_several(run: Path) -> None:
    text = command("tune-objective", str(run), "--metric", "pass@1").stdout
    assert [line.split()[0] for line in text.splitlines()[2:6]] == ["1", "4", "16", "64"]
    assert "next:" not in text


def test_what_the_run_measured_is_the_noise(tmp_path: Path) -> None:
    """The mean scatter over Λ = Σ|∇log p|²/Σ(1−p)², both over the steps that recorded them and their groups of two
    successes or more; given a noise, that is taken instead. p ~ Beta(3, 2) has E(1−p)² = 1/5, Beta(4, 1) has 1/15.
    """
    with Run.create(tmp_path / "r", recipe="seed = 1\n", manifest={}, genesis={"config": {}}) as run:
        for step, metrics in enumerate(
            [{"score_signal": 2.0, "score_scatter": 9.0}, {}, {"score_signal": 1.0, "score_scatter": 3.0}]
        ):
            made = [
                Record(kind="rollout", step=step, task=0, sample=i, body={"status": s, "reward": 0.0})
                for i, s in enumerate(["correct", "correct", "wrong" if step == 0 else "correct"])
            ]
            made.append(Record(kind="rollout", step=step, task=1, sample=0, body={"status": "correct", "reward": 1.0}))
            run.append([*made, Record(kind="step", step=step, body={"metrics": metrics})])
        run.set_status(RunStatus.FINISHED)
    words = ("tune-objective", str(tmp_path / "r"), "--metric", "pass@2")
    facts = json.loads(command(*words, "--json").stdout)
    sensitivity = (2.0 + 1.0) / (1 / 5 + 1 / 15)
    assert facts["measured"] == pytest.approx((9.0 + 3.0) / 2 / sensitivity)
    assert [row["noise"] for row in facts["best"]] == [facts["measured"]]
    assert "measured in this run" in command(*words).stdout
    given = json.loads(command(*words, "--noise", "7", "--json").stdout)
    assert given["measured"] is None and given["best"][0]["noise"] == 7.0


def test_it_shows_how_far_the_objective_of_the_run_moves_by_the_number_of_successes(tmp_path: Path) -> None:
    """GRPO: √(K(N−K))/N, relative to the largest; the share of the movement by the groups of the run."""
    config = {"objective": {"type": "dr_grpo", "clip_low": "inf"}}
    made = write(tmp_path / "r", [[0, 1, 1, 2, 4]], config=config)
    words = ("tune-objective", str(made), "--metric", "log p", "--noise", "1")
    facts = json.loads(command(*words, "--json").stdout)
    scale = facts["scale"]
    assert (scale["objective"], scale["group"], scale["regime"]) == ("dr_grpo", 4, "mixed")
    wanted = [k * (4 - k) / 4 for k in range(5)]
    assert [row["scale"] for row in scale["rows"]] == pytest.approx(wanted)
    assert [row["groups"] for row in scale["rows"]] == [0, 2, 1, 0, 1]
    moved = [n * s for n, s in zip([0, 2, 1, 0, 1], wanted, strict=True)]
    assert [row["share"] for row in scale["rows"]] == pytest.approx([m / sum(moved) for m in moved])
    terms = gain_terms({Posterior(1, 3): 2, Posterior(2, 2): 1, Posterior(4, 0): 1, Posterior(0, 3): 1}, group=4,
        of=metric("log p"), noise=1.0)  # fmt: skip
    assert facts["best"][0]["scale"] == pytest.approx(best_scale(terms))
    text = command(*words).stdout
    assert "update scale of dr_grpo, which trained this run, in its groups of 4: mixed" in text
    assert text.count("best scale") == 1


@pytest.mark.parametrize(
    ("options", "regime", "scale"),
    [
        ({"type": "rl2ml", "parameter": 0.0}, "subcritical", [0, 1 / 4, 1 / 2, 3 / 4, 1]),
        ({"type": "maxrl"}, "critical", [0, 1, 1, 1, 1]),
        ({"type": "rl2ml", "family": "B", "parameter": 2.0}, "supercritical", [0, 1, 1 / 2, 1 / 3, 1 / 4]),
        ({"type": "grpo", "epsilon": 0.0}, "mixed", [0, 3**0.5 / 2, 1, 3**0.5 / 2, 0]),
        ({"type": "w_reinforce"}, None, None),
    ],
)
def test_the_update_scale_of_an_objective(options: dict[str, object], regime: str | None, scale: list[float]) -> None:
    """By hand: K·a(K)/N over its largest; none where failures move the policy by themselves."""
    name = str(options.pop("type"))
    found = scale_of(objective(name, **options), 4)
    if scale is None:
        assert found is None
        return
    assert found == pytest.approx(scale, abs=1e-12)
    assert regime_of(found[1:]).value == regime


def test_reinforce_is_kept_unless_another_parameter_is_shown_to_gain_more(tmp_path: Path) -> None:
    """Two tasks that ask for opposite things leave no evidence; many of one kind do."""
    mixed = write(tmp_path / "mixed", [[4, 1]])
    words = ("--metric", "pass@1", "--noise", "1")
    (row,) = json.loads(command("tune-objective", str(mixed), *words, "--json").stdout)["best"]
    clear = write(tmp_path / "clear", [[1, 2, 3, 1, 2, 3, 4, 1, 2, 3, 1, 2]])
    strong = ("--metric", "log p", "--noise", "0.1")
    (other,) = json.loads(command("tune-objective", str(clear), *strong, "--json").stdout)["best"]
    assert row["low"] <= row["high"] and other["low"] > 0 and other["chosen"] == other["parameter"] > 0
    assert row["low"] <= 0 and row["chosen"] == 0.0
    text = command("tune-objective", str(mixed), *words).stdout
    assert "objective.parameter=0 " in text and ("is not shown to gain more" in text) == (row["parameter"] != 0)


def test_it_names_what_moved_the_policy_beside_the_objective(tmp_path: Path, run: Path) -> None:
    made = write(tmp_path / "r", COUNTS, config={"regularize": {"kl": 0.0, "entropy": 0.01, "overlong": 0.5}})
    words = ("tune-objective", str(made), "--metric", "pass@2", "--noise", "2")
    assert json.loads(command(*words, "--json").stdout)["beside"] == {"regularize.entropy": 0.01}
    left = "left out: regularize.entropy = 0.01, which moved the policy of this run beside its objective."
    assert left in command(*words).stdout and "left out" not in command(words[0], str(run), *words[2:]).stdout


def test_early_steps_can_be_left_out(run: Path) -> None:
    words = ("tune-objective", str(run), "--metric", "pass@1", "--json")
    assert json.loads(command(*words, "--since", "1").stdout)["groups"] == 3
    late = command(*words, "--since", "2")
    assert late.returncode == 1 and "E411" in late.stderr and "2 finished steps" in late.stderr


@pytest.mark.parametrize(
    ("words", "code", "fix"),
    [
        (["--metric", "pass@0"], "E005", "pass@k for any k"),
        (["--metric", "accuracy"], "E005", "--metric pass@4"),
        (["--metric", "pass@2", "--family", "E"], "E005", "known: A, B, C, D"),
        (["--metric", "pass@2", "--noise", "-1"], "--noise", "greater than or equal to 0"),
        (["--metric", "pass@2", "--noise", "nan"], "--noise", "less than or equal to"),
        ([], "--metric", "Missing option"),
    ],
)
def test_a_mistake_is_told(run: Path, words: list[str], code: str, fix: str) -> None:
    done = command("tune-objective", str(run), *words)
    assert done.returncode == 2 and code in done.stderr and fix in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("status", [RunStatus.INTERRUPTED, RunStatus.FAILED])
def test_a_run_that_has_not_ended_is_not_counted(tmp_path: Path, status: RunStatus) -> None:
    folder = write(tmp_path / "r", COUNTS, status)
    done = command("tune-objective", str(folder), "--metric", "pass@4")
    assert done.returncode == 1 and "E410" in done.stderr and f"gnomon resume {folder}" in done.stderr
    assert f"the run is {status} after 2 steps" in done.stderr


def test_a_run_without_rollouts_is_not_counted(tmp_path: Path) -> None:
    done = command("tune-objective", str(write(tmp_path / "r", [])), "--metric", "pass@4")
    assert done.returncode == 1 and "E411" in done.stderr
    assert "E404" in command("tune-objective", str(tmp_path / "none"), "--metric", "pass@4").stderr
