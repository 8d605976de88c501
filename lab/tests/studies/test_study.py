"""A study from its file to its verdict: registration, runs in a pool, crashes, kills, and bytes that repeat."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from commands import command
from gnomon.errors import ConfigErrors, GnomonError, RunError
from gnomon.store import RunReader
from gnomon.types import Conclusion
from gnomon_lab.studies import Claim, Study, load
from gnomon_lab.studies.command import EXIT, INTERRUPTED, run_study, verify_study
from gnomon_lab.studies.design import sha256
from gnomon_lab.studies.folder import Cell, StudyFolder
from gnomon_lab.studies.outcome import brier, outcome

HEAD = "from gnomon_lab.studies import Claim, Study, final, last_steps\n\n"
COIN = (
    HEAD
    + """
import random


def fair(seed):
    return {"heads": random.Random(seed).gauss(0.0, 1.0)}


def loaded(seed):
    return {"heads": random.Random(-1 - seed).gauss(SHIFT, 1.0)}


study = Study(
    question="Does the loaded coin show more heads?",
    why="A study of functions needs no run.",
    arms={"fair": fair, "loaded": loaded},
    claims=[Claim(measure="heads", arm="loaded", than="fair")],
    prediction={"PASS": 0.5, "FAIL": 0.25, "INCONCLUSIVE": 0.25},
)
"""
)
RUNS = (
    HEAD
    + """
def wrong(reader):
    return float(reader.held_out["statuses"].get("wrong", 0))


study = Study(
    question="Does training at a rate of nearly zero gain less?",
    why="A study of runs: two arms, two seeds, two steps each.",
    base="char_count",
    settings={"steps": 2, "prompts": 2, "group": 2, "eval.tasks": 4, "workers.count": 1},
    arms={"still": {"lr": 1e-9}, "moving": {"lr": 1e-3}},
    seeds=(0, 1),
    measures={"final": final, "entropy": last_steps("entropy", 1), "wrong": wrong},
    claims=[Claim(measure="final", arm="moving", than="still")],
    prediction={"PASS": 0.1, "FAIL": 0.1, "INCONCLUSIVE": 0.8},
)
"""
)


def written(folder: Path, text: str) -> Path:
    path = folder / "asked.py"
    path.write_text(text)
    return path


KEPT = (
    HEAD
    + """
import gnomon


def trained(seed, folder):
    assert not list(folder.iterdir())
    sizes = {"steps": 1, "eval": {"tasks": 4}, "rollout": {"prompts": 2, "group": 2}, "quiet": True}
    with gnomon.train("char_count", run=folder / "run", seed=seed, **sizes) as run:
        return {"final": final(run)}


study = Study(
    question="Does a function keep its runs?",
    why="Every number must lead to the texts.",
    arms={"one": trained, "without": lambda seed: {"final": -1.0}},
    seeds=(0, 1),
    claims=[Claim(measure="final", arm="one", than="without", above=-1.0)],
    prediction={"PASS": 0.5, "FAIL": 0.25, "INCONCLUSIVE": 0.25},
)
"""
)


def test_the_runs_of_a_function_are_kept(tmp_path):
    folder = tmp_path / "kept"
    left = folder / "kept" / "one" / "0" / "run"
    StudyFolder.register(folder, written(tmp_path, KEPT))
    left.mkdir(parents=True)  # As a run that was killed before its first record.
    run_study(str(tmp_path / "asked.py"), folder, jobs=1)
    for seed in (0, 1):
        with RunReader(folder / "kept" / "one" / str(seed) / "run") as run:
            assert run.complete and run.rollout_rows(0)
    assert not (folder / "kept" / "without").exists()
    assert verify_study(folder) == 0


@pytest.mark.parametrize(("shift", "verdict"), [(3, "PASS"), (-3, "FAIL"), (0, "INCONCLUSIVE")])
def test_a_study_of_functions_is_decided_by_rule(tmp_path, capsys, shift, verdict):
    file = written(tmp_path, COIN.replace("SHIFT", str(shift)))
    assert run_study(str(file), tmp_path / "coin", jobs=2) == EXIT[Conclusion(verdict)]
    result = json.loads((tmp_path / "coin" / "result.json").read_text())
    assert result["verdict"] == verdict and len(result["claims"][0]["values"]) == 8
    out = capsys.readouterr().out
    assert "1.16 standard deviations" in out and result["sha256"] in out
    page = (tmp_path / "coin" / "page.md").read_text()
    assert f"**{verdict}** with 8 seeds." in page
    assert (tmp_path / "coin" / "claim-0.svg").read_text().startswith("<?xml")


def test_the_same_study_gives_the_same_bytes(tmp_path):
    file = written(tmp_path, COIN.replace("SHIFT", "1"))
    for name in ("a", "b"):
        run_study(str(file), tmp_path / name / "coin", jobs=2)
    for name in ("result.json", "page.md", "claim-0.svg"):
        assert (tmp_path / "a" / "coin" / name).read_bytes() == (tmp_path / "b" / "coin" / name).read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A study of runs that nobody touched."""
    folder, began = tmp_path_factory.mktemp("whole"), time.monotonic()
    assert run_study(str(written(folder, RUNS)), folder / "rates", jobs=2) == EXIT[Conclusion.INCONCLUSIVE]
    (folder / "seconds").write_text(str(time.monotonic() - began))
    return folder


def test_arms_of_runs_are_measured_and_a_finished_study_runs_nothing(whole, capsys):
    folder = StudyFolder(whole / "rates")
    assert {name for name in os.listdir(folder.folder / "runs" / "moving")} == {"0", "1"}
    assert folder.result["measured"]["still"]["0"]["final"] == folder.measures_of(Cell("still", 0))["final"]
    before = (whole / "rates" / "result.json").read_bytes()
    capsys.readouterr()
    run_study(str(whole / "asked.py"), whole / "rates", jobs=2)
    assert "done in" not in capsys.readouterr().out
    assert (whole / "rates" / "result.json").read_bytes() == before


def test_a_crash_counts_against_its_arm(tmp_path):
    crash = COIN.replace("SHIFT", "3").replace(
        'return {"heads": random.Random(-1', 'assert seed != 5\n    return {"heads": random.Random(-1'
    )
    file = written(tmp_path, crash)
    assert run_study(str(file), tmp_path / "a", jobs=2) == EXIT[Conclusion.INCONCLUSIVE]
    claim = StudyFolder(tmp_path / "a").result["claims"][0]
    assert claim["crashed"] == ["loaded/5"] and claim["mean"] is None
    assert "AssertionError" in StudyFolder(tmp_path / "a").crash(Cell("loaded", 5)).read_text()
    valued = crash.replace("    prediction", '    crashed={"heads": -1e9},\n    prediction')
    assert run_study(str(written(tmp_path, valued)), tmp_path / "b", jobs=2) == EXIT[Conclusion.INCONCLUSIVE]
    assert StudyFolder(tmp_path / "b").result["claims"][0]["values"]["5"] < -1e8


def test_a_changed_file_is_refused(tmp_path):
    file = written(tmp_path, COIN.replace("SHIFT", "0"))
    run_study(str(file), tmp_path / "coin", jobs=1)
    file.write_text(file.read_text().replace("0.5", "0.4").replace("0.25}", "0.35}"))
    with pytest.raises(RunError, match="E426"):
        run_study(str(file), tmp_path / "coin", jobs=1)
    copy = tmp_path / "coin" / "study.py"
    copy.write_text(copy.read_text() + "\n")
    with pytest.raises(RunError, match="E426"):
        _ = StudyFolder(tmp_path / "coin").study


def test_verify_finds_what_was_changed_after_the_fact(whole, tmp_path, capsys):
    assert verify_study(whole / "rates") == 0
    copy = tmp_path / "rates"

    def changed(path: str, old: str, new: str) -> str:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole / "rates", copy)
        (copy / path).write_text((copy / path).read_text().replace(old, new, 1))
        assert verify_study(copy) == 1
        return capsys.readouterr().out

    assert "E426" in changed("study.py", "0.8", "0.7")
    assert "E428" in changed("result.json", '"verdict": "INCONCLUSIVE"', '"verdict": "PASS"')
    assert "E405" in changed("runs/still/0/recipe.toml", "seed = 0", "seed = 3")
    other = json.loads((whole / "rates" / "registered.json").read_text())["sha256"]
    assert changed("registered.json", other, "0" * 64).count("E426") == 5  # The file, and four runs.


@pytest.mark.parametrize("stale", ["numbers/fair-3.json", "crashes/fair-5.txt"])
def test_verify_finds_a_study_that_was_registered_again_over_its_numbers(tmp_path, capsys, stale):
    """The pass line changes after the runs, in the file and in its registration. One file still has the old hash."""
    text = COIN.replace("SHIFT", "0").replace("    prediction", '    crashed={"heads": 0.0},\n    prediction')
    folder, text = tmp_path / "coin", text.replace("def fair(seed):", "def fair(seed):\n    assert seed != 5")
    run_study(str(written(tmp_path, text)), folder, jobs=2)
    assert verify_study(folder) == 0
    old = StudyFolder(folder).hash
    (folder / "study.py").write_text(text.replace('than="fair"', 'than="fair", above=-9.0'))
    (folder / "registered.json").write_text(json.dumps({"sha256": sha256(folder / "study.py"), "at": 0.0}))
    (folder / "result.json").unlink()
    assert verify_study(folder) == 1 and capsys.readouterr().out.count("E430") == 16
    for path in [*folder.glob("numbers/*"), *folder.glob("crashes/*")]:
        if path != folder / stale:
            path.write_text(path.read_text().replace(old, StudyFolder(folder).hash))
    assert verify_study(folder) == 1 and capsys.readouterr().out.count("E430") == 1
    with pytest.raises(RunError, match="E430"):
        run_study(str(folder / "study.py"), folder, jobs=2)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"heads": 1.0}', "{", '{"study": null, "numbers": {}}'])
def test_numbers_without_the_hash_of_their_study_are_found(tmp_path, text):
    """Such as those of an earlier version, or a file that was cut."""
    folder = tmp_path / "coin"
    run_study(str(written(tmp_path, COIN.replace("SHIFT", "0"))), folder, jobs=2)
    (folder / "numbers" / "fair-0.json").write_text(text)
    (found,) = StudyFolder(folder).problems()
    assert found.code == "E430" and "fair-0.json" in str(found) and f"rm {folder}" in str(found)


def test_looks_share_the_error_and_stop_early(tmp_path):
    text = COIN.replace("SHIFT", "9").replace("    claims", "    looks=(4, 8),\n    claims")
    assert run_study(str(written(tmp_path, text)), tmp_path / "coin", jobs=2) == 0
    result = StudyFolder(tmp_path / "coin").result
    assert result["seeds"] == [0, 1, 2, 3] and result["claims"][0]["level"] == pytest.approx(0.975)


MISTAKES = {
    "no measure 'hats'": ('measure="final"', 'measure="hats"'),
    "no arm 'movin'": ('arm="moving"', 'arm="movin"'),
    "has fewer than 2 seeds": ("seeds=(0, 1)", "seeds=(0,)"),
    "appears twice": ("seeds=(0, 1)", "seeds=(1, 1)"),
    "have no base|has no base": ('base="char_count"', 'base=""'),
    "add up to 1": ('"PASS": 0.1', '"PASS": 0.9'),
    "does not increase": ("    claims", "    looks=(1,),\n    claims"),
    "optim.lr": ('{"lr": 1e-9}', '{"optim.lrr": 0.0}'),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_mistakes_are_told_before_anything_runs(tmp_path, what):
    old, new = MISTAKES[what]
    assert old in RUNS
    file = written(tmp_path, RUNS.replace(old, new, 1))
    with pytest.raises(ConfigErrors, match=what):
        run_study(str(file), tmp_path / "study")
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize("text", ["", "study = 1", "1/0", "def ("])
def test_a_file_that_is_no_study_is_an_error_of_the_user(tmp_path, text):
    with pytest.raises(GnomonError, match="E095"):
        load(written(tmp_path, text))


@pytest.mark.long
@pytest.mark.parametrize("number", range(10))
def test_a_study_killed_at_any_point_goes_on_and_ends_the_same(whole, tmp_path, number):
    """Killed with SIGKILL at a random moment of its duration: no process is left, and the rest gives the same bytes."""
    file, folder = whole / "asked.py", tmp_path / "killed" / "rates"
    delay = random.Random(number).uniform(0.0, float((whole / "seconds").read_text()))
    while not killed(file, folder, delay):
        shutil.rmtree(folder)
        delay /= 2  # The machine is faster now than for the untouched study.
    deadline = time.monotonic() + 60  # Seconds; on a busy machine a process needs some to end.
    while (left := using(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left
    run_study(str(file), folder, jobs=2)
    for name in ("result.json", "page.md", "claim-0.svg"):
        assert (folder / name).read_bytes() == (whole / "rates" / name).read_bytes()
    assert verify_study(folder) == 0


def killed(file: Path, folder: Path, delay: float) -> bool:
    """Run a study in a process of its own, and kill it so many seconds after it wrote its first file.

    Returns: whether it was still running.
    """
    words = [sys.executable, "-m", "gnomon", "study", str(file), "--folder", str(folder), "--jobs", "2"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        while not folder.exists():
            assert process.poll() is None
            time.sleep(0.01)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(delay)
        process.kill()
    return process.returncode == -signal.SIGKILL


@pytest.mark.long
def test_the_study_of_the_documentation_runs_by_its_command(tmp_path):
    """As on the page, with two steps in place of 40, two seeds in place of eight, and fewer rollouts and tasks."""
    page = (Path(__file__).parents[3] / "docs" / "lab" / "studies.md").read_text()
    text = re.search(r"```python\n(# bigger_groups\.py\n.*?)```", page, re.S)[1]
    assert len(text.splitlines()) <= 40
    changes = {
        '"steps": 40': '"steps": 2, "eval.tasks": 4, "workers.count": 1',
        "range(8)": "range(2)",
        '"prompts": 8': '"prompts": 1',
        '"prompts": 32': '"prompts": 4',
    }
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    (tmp_path / "bigger_groups.py").write_text(text)
    done = command("study", "bigger_groups.py", "--jobs", "2", cwd=tmp_path)
    result = StudyFolder(tmp_path / "studies" / "bigger-groups").result
    assert result and done.returncode == EXIT[Conclusion(result["verdict"])], done.stdout + done.stderr
    assert all(sorted(result["measured"][arm]) == ["0", "1"] for arm in ("eight", "two"))
    assert command("verify", "studies/bigger-groups", cwd=tmp_path).returncode == 0


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_run_ends_with_its_study(tmp_path, number):
    """The only run would sleep for a minute."""
    text = ASLEEP.replace("BEGUN", repr(str(tmp_path / "begun")))
    words = ["study", str(written(tmp_path, text)), "--folder", str(tmp_path / "asleep"), "--jobs", "1"]
    with subprocess.Popen([sys.executable, "-m", "gnomon", *words], stdout=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "begun").exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        told = process.communicate()[0]
    stopped = number is not signal.SIGKILL
    assert process.returncode == (INTERRUPTED if stopped else -number)
    assert ("the same command goes on: gnomon study" in told) == stopped
    deadline = time.monotonic() + 10
    while using(tmp_path / "asleep") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not using(tmp_path / "asleep")


ASLEEP = """
import pathlib, time
from gnomon_lab.studies import Claim, Study

def sleeps(seed):
    pathlib.Path(BEGUN).touch()
    time.sleep(60)
    return {"x": 1.0}

study = Study(
    question="Does it end?",
    why="A killed study must not leave runs behind.",
    arms={"a": sleeps},
    seeds=range(2),
    claims=[Claim(measure="x", arm="a", above=0.0)],
    prediction={"PASS": 1.0, "FAIL": 0.0, "INCONCLUSIVE": 0.0},
)
"""


TRAINS = """
import gnomon
from gnomon_lab.studies import Claim, Study

SMALL = {"prompts": 1, "group": 2, "eval": {"tasks": 2}, "workers": {"count": 1}, "quiet": True, "threads": 1}

def trained(seed, folder):
    with gnomon.train("char_count", run=folder / "run", seed=seed, steps=60, **SMALL) as run:
        return {"steps": float(run.steps)}

study = Study(
    question="Does the whole run count?",
    why="A function may not notice that the run which it asked for ended early.",
    arms={"a": trained},
    seeds=(0,),
    exact=True,
    claims=[Claim(measure="steps", arm="a", above=59.5)],
    prediction={"PASS": 1.0, "FAIL": 0.0, "INCONCLUSIVE": 0.0},
)
"""


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_function_whose_run_was_interrupted_is_called_again(tmp_path, number):
    """Neither the numbers of half a run nor an error that follows from it is kept."""
    file, folder = written(tmp_path, TRAINS), tmp_path / "trains"
    words = [sys.executable, "-m", "gnomon", "study", str(file), "--folder", str(folder), "--jobs", "1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        while not trained_a_step(folder / "kept/a/0/run"):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        assert "the same command goes on" in process.communicate()[0]
    assert process.returncode == INTERRUPTED
    assert not list(folder.glob("numbers/*")) and not list(folder.glob("crashes/*"))
    assert run_study(str(file), folder, jobs=1) == 0


def trained_a_step(run: Path) -> bool:
    with contextlib.suppress(GnomonError), RunReader(run) as reader:
        return bool(reader.metrics())
    return False


def using(folder: Path) -> list[int]:
    """Processes that have a file of the folder open."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                links = [os.readlink(link) for link in (entry / "fd").iterdir()]
            except OSError:
                continue
            if any(link.startswith(str(folder)) for link in links):
                found.append(int(entry.name))
    return found


def claimed(claim: Claim, **more: object) -> Study:
    return Study(
        question="?", why="", arms={"a": dict, "b": dict}, claims=[claim],
        prediction={"PASS": 1.0, "FAIL": 0.0, "INCONCLUSIVE": 0.0}, **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("claim", "values", "verdict"),
    [
        (Claim(measure="m", arm="a", above=0.5), [1.0, 1.1, 0.9], "PASS"),
        (Claim(measure="m", arm="a", above=2.0), [1.0, 1.1, 0.9], "FAIL"),
        (Claim(measure="m", arm="a", within=2.0), [1.0, 1.1, 0.9], "PASS"),
        (Claim(measure="m", arm="a", within=0.5), [1.0, 1.1, 0.9], "FAIL"),
        (Claim(measure="m", arm="a", above=0.99), [1.0, 1.1, 0.9], "INCONCLUSIVE"),
    ],
)
def test_the_rule(claim, values, verdict):
    measured = {"a": {seed: {"m": value} for seed, value in enumerate(values)}}
    assert outcome(claimed(claim), measured, range(3)).verdict == verdict


def test_exact_numbers_have_no_scatter():
    measured = {"a": {0: {"m": 1e-12}}}
    found = outcome(claimed(Claim(measure="m", arm="a", within=1e-9), exact=True), measured, [0])
    assert found.verdict is Conclusion.PASS


def test_the_score_of_a_prediction():
    assert brier({"PASS": 0.7, "FAIL": 0.1, "INCONCLUSIVE": 0.2}, Conclusion.PASS) == pytest.approx(0.09 + 0.01 + 0.04)
