"""Studies whose arms train a model folder: their cost before the first run, progress, and nothing lost by Ctrl-C."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from commands import command
from gnomon.models.folder import TINY
from gnomon.store import RunReader
from gnomon_lab.studies.budget import planned_arms
from gnomon_lab.studies.command import INTERRUPTED
from gnomon_lab.studies.design import load

STUDY = """\
from gnomon_lab.studies import Claim, Study

study = Study(
    question="Does a model folder learn?",
    why="Arms may train any model.",
    base="char_count",
    settings={"steps": 4, "prompts": 4, "group": 4, "eval.tasks": 4, "workers.count": 1, "rollout.max_tokens": 8},
    arms={"folder": {"policy": POLICY, "lora": 0}, "shipped": {}, "function": lambda seed: {"final": 0.0}},
    seeds=(0, 1),
    claims=[Claim(measure="final", arm="folder", than="shipped")],
    prediction={"PASS": 0.1, "FAIL": 0.1, "INCONCLUSIVE": 0.8},
)
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study with an arm that trains a copy of the shipped model, which is a model like any other."""
    shutil.copytree(TINY, tmp_path / "model")
    file = tmp_path / "asked.py"
    file.write_text(STUDY.replace("POLICY", repr(str(tmp_path / "model"))))
    return file


@pytest.mark.long
def test_the_cost_comes_first_then_progress_and_an_interrupted_study_goes_on(study: Path, tmp_path: Path) -> None:
    words = ["study", str(study), "--folder", "cut", "--jobs", "1"]
    with subprocess.Popen(
        [sys.executable, "-m", "gnomon", *words], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:  # fmt: skip
        run = tmp_path / "cut" / "runs" / "folder" / "0"
        while not (run / "journal.db").exists() or steps(run) < 1:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.stdout
        said = process.stdout.read().splitlines()
    assert process.returncode == INTERRUPTED, said
    assert re.fullmatch(r"planned: \d+ s of processor time beside loading \(folder 2 x \d+ s\)", said[4]), said
    kept = steps(run)
    assert kept >= 1
    done = command(*words, cwd=tmp_path)
    assert re.search(r"^folder/[01] \d+ %, about \d+ (s|min) left$", done.stdout, re.M), done.stdout
    command("study", str(study), "--folder", "whole", "--jobs", "1", cwd=tmp_path)
    for name in ("result.json", "page.md"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def steps(run: Path) -> int:
    try:
        with RunReader(run) as reader:
            return reader.steps
    except Exception:  # The run is making its first record.
        return 0


def test_only_runs_of_other_models_than_the_shipped_ones_are_planned(study: Path) -> None:
    assert planned_arms(load(study)) == ["folder"]
