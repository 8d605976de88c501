"""A run goes on with more steps, or other evaluations: its chain says so, and it is the run of that length."""

from __future__ import annotations

import signal
from pathlib import Path
from shutil import copytree, rmtree

import pytest

import gnomon
from commands import command
from gnomon.config import overrides
from gnomon.errors import RunError
from gnomon.run.extension import extension
from gnomon.store import RunReader, diff, verify

SETTINGS = {
    "rollout": {"prompts": 2, "group": 2, "max_tokens": 8},
    "eval": {"tasks": 2, "every": 2},
    "optim": {"min_lr_ratio": 1.0},
    "threads": 1,
}


def train(folder: Path, steps: int, **more: object) -> Path:
    gnomon.train("char_count", run=folder, steps=steps, quiet=True, **{**SETTINGS, **more}).close()
    return folder


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("runs") / "short", 2)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("runs") / "whole", 3)


@pytest.fixture
def run(short: Path, tmp_path: Path) -> Path:
    return copytree(short, tmp_path / "run")


def test_an_extended_run_has_the_records_of_a_run_of_that_length(run, whole):
    done = command("resume", str(run), "steps=3")
    assert done.returncode == 0, done.stderr
    assert "Extended: budget.steps was 2 and is 3." in done.stdout
    found = diff(run, whole)
    assert not found.parted and list(found.config) == ["config.budget.steps"]
    assert verify(run), verify(run)
    assert (run / "recipe.toml").read_text() == (whole / "recipe.toml").read_text()
    with RunReader(run) as reader:
        assert reader.complete and not reader.varies and reader.steps == 3
        (record,) = reader.records("extension")
        assert record.step == 2 and record.body == {"settings": {"budget.steps": 3}, "before": {"budget.steps": 2}}
    shown = command("show", str(run))
    assert "extended     from step 2: budget.steps was 2 and is 3" in shown.stdout
    assert "0 verdicts changed" in command("replay", str(run)).stdout
    assert "3/3 steps" in command("ls", str(run)).stdout
    report = command("report", str(run), str(run.parent / "page.html"))
    assert report.returncode == 0, report.stderr


@pytest.mark.parametrize(
    ("words", "launch"),
    [
        (["launch=local"], {"type": "local"}),
        (["launch.address=", "launch.samplers=3"], {"address": "", "samplers": 3}),
        (["launch=ray", "launch.address=auto", "ranks=2", "learner=ray"], {"type": "ray", "address": "auto"}),
    ],
)
def test_where_the_parts_run_changes_with_a_resume_and_no_record_tells(short, words, launch):
    with RunReader(short) as reader:
        other = extension(reader, overrides(words, 2))
    assert not other.recipe and not other.body
    assert other.config.launch == other.before.launch.model_copy(update=launch)


def test_a_run_is_extended_twice_from_python(run, tmp_path):
    gnomon.resume(run, steps=3, quiet=True).close()
    gnomon.resume(run, budget={"steps": 4}, quiet=True).close()
    assert not diff(run, train(tmp_path / "four", 4)).parted and verify(run)
    with RunReader(run) as reader:
        assert [record.body["settings"]["budget.steps"] for record in reader.records("extension")] == [3, 4]


@pytest.mark.parametrize(
    "place", ["extend:before-commit", "extend:after-commit", "append:after-commit:2", "checkpoint:before-rename"]
)
def test_a_killed_extension_is_resumed_to_the_same_run(run, whole, place):
    killed = command("resume", str(run), "steps=3", env={"GNOMON_FAILPOINT": place})
    assert killed.returncode == -signal.SIGKILL
    again = ("resume", str(run), *(["steps=3"] if place == "extend:before-commit" else []))
    done = command(*again)
    assert done.returncode == 0, done.stderr
    assert not diff(run, whole).parted and verify(run), verify(run)


def test_a_damaged_checkpoint_repeats_steps_across_the_extension(tmp_path, whole):
    run = train(tmp_path / "r", 2, save={"every": 1, "keep": 3})
    killed = command("resume", str(run), "steps=3", env={"GNOMON_FAILPOINT": "append:after-commit"})
    assert killed.returncode == -signal.SIGKILL
    (run / "checkpoints" / "000002" / "state.json").write_text("{}")
    done = command("resume", str(run))
    assert done.returncode == 0 and "Continuing from the checkpoint of step 1." in done.stdout, done.stderr
    assert not diff(run, whole).parted and verify(run), verify(run)


def test_a_finished_run_without_a_checkpoint_is_not_extended(run):
    for path in (run / "checkpoints").iterdir():
        rmtree(path)
    assert "there is nothing to resume" in command("resume", str(run)).stdout
    with pytest.raises(RunError, match="E420"):
        gnomon.resume(run, steps=4, quiet=True)
    with RunReader(run) as reader:
        assert reader.complete and reader.steps == 2


def test_how_often_to_save_changes_without_a_record(tmp_path):
    run = train(tmp_path / "r", 2)
    gnomon.resume(run, steps=3, save={"every": 1, "keep": 9}, quiet=True).close()
    with RunReader(run) as reader:
        (record,) = reader.records("extension")
        assert list(record.body["settings"]) == ["budget.steps"] and "keep = 9" in reader.recipe


def test_an_evaluation_changes_from_the_extension_on(run, whole):
    gnomon.resume(run, steps=4, eval={"every": 1, "tasks": 3}, quiet=True).close()
    assert verify(run), verify(run)
    with RunReader(run) as reader:
        assert [record.step for record in reader.evaluations()] == [0, 2, 3, 4]
        tasks = [next(iter(record.body["pass_at"].values()))["n"] for record in reader.evaluations()]
        assert tasks == [2, 3, 3, 3]


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        ({"group": 4}, "E413", "rollout.group cannot change when a run is resumed"),
        ({"env": {"most": 2}}, "E413", "env.most cannot change"),
        ({"steps": 1}, "E413", "the run has 2 finished steps, and budget.steps is 1"),
        ({"eval": {"every": 1}}, "E413", "continues only with more steps"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_may_not_change_is_refused_and_nothing_is_written(run, settings, code, words):
    before = verify(run)
    with pytest.raises(RunError) as caught:
        gnomon.resume(run, quiet=True, **settings)
    assert caught.value.code == code and words in str(caught.value)
    assert verify(run) == before


def test_a_run_whose_steps_depend_on_their_number_is_not_extended(tmp_path):
    run = train(tmp_path / "r", 2, rollout={**SETTINGS["rollout"], "order_seed": 3})
    with pytest.raises(RunError, match="E421") as caught:
        gnomon.resume(run, steps=3, quiet=True)
    assert "order_seed" in caught.value.what


def test_a_learning_rate_that_decays_is_said(tmp_path):
    run = train(tmp_path / "r", 2, optim={"min_lr_ratio": 0.1, "warmup": 0})
    done = command("resume", str(run), "steps=4")
    assert done.returncode == 0, done.stderr
    with RunReader(run) as reader:
        rates = [step["metrics"]["lr"] for step in reader.metrics()]
    assert rates[2] > rates[1]
    whole = train(tmp_path / "whole", 4, optim={"min_lr_ratio": 0.1, "warmup": 0})
    with RunReader(whole) as reader:
        would = [step["metrics"]["lr"] for step in reader.metrics()][1]
    said = f"in step 1 it was {rates[1]:.3g} instead of {would:.3g}. "
    assert said in done.stdout and f"{rates[1]:.3g}" != f"{would:.3g}"


def test_a_run_that_is_extended_while_it_warms_up_is_that_of_the_start(tmp_path):
    optim = {"min_lr_ratio": 0.1, "warmup": 2}
    run, whole = train(tmp_path / "r", 2, optim=optim), train(tmp_path / "whole", 4, optim=optim)
    done = command("resume", str(run), "steps=4")
    assert done.returncode == 0 and "learning rate" not in done.stdout, done.stdout + done.stderr
    with RunReader(run) as one, RunReader(whole) as other:
        assert [step["metrics"]["lr"] for step in one.metrics()] == [step["metrics"]["lr"] for step in other.metrics()]


def test_a_resumed_run_stays_in_its_folder_and_the_fix_of_another_setting_has_its_value(run):
    moved, changed = command("resume", str(run), "run=other", "steps=9"), command("resume", str(run), "lr=0.5")
    assert moved.returncode == changed.returncode != 0
    assert (
        "error[E413] a resumed run stays in its folder" in moved.stderr and "fix: leave out run=other" in moved.stderr
    )
    assert f"fix: gnomon train {run}/recipe.toml optim.lr=0.5 run=OTHER" in changed.stderr


def test_the_code_of_an_extended_run_stays_trusted(tmp_path):
    (tmp_path / "own.py").write_text("from gnomon.envs import CharCount\nclass Own(CharCount):\n    pass\n")
    small = ("prompts=2", "group=2", "max_tokens=8", "eval.tasks=2", "threads=1", "run=r")
    done = command("train", "own.py:Own", "steps=1", *small, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert command("resume", "r", "steps=2", cwd=tmp_path).returncode == 0
    replayed = command("replay", "r", cwd=tmp_path)
    assert replayed.returncode == 0, replayed.stderr
