"""Every command, with output that has few characters, is closed, or has no reader: none fails, and no file is lost."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer

import gnomon
from commands import command
from gnomon.cli import app
from gnomon.commands.words import LABORATORY

SMALL = ["steps=1", "prompts=2", "group=2", "max_tokens=4", "eval.tasks=2", "threads=1", "audit.acknowledge=[]"]
RUN, FILE = "{folder}/r", "{own}/out"
QUICK = {
    "doctor": f"doctor {RUN}",
    "plan": f"plan {RUN}",
    "simulate": f"simulate {RUN}",
    "compare": f"compare {RUN} {{folder}}/other",
    "transfer": f"transfer {RUN} {{folder}}/other",
    "show": f"show {RUN} 0",
    "export": f"export {RUN} {FILE}",
    "export-rollouts": f"export-rollouts {RUN} {FILE}.jsonl",
    "import": f"import {{folder}}/log.jsonl {FILE} prompt=q reply=text reward=score --format jsonl",
    "ls": "ls {folder}",
    "tail": f"tail {RUN}",
    "report": f"report {RUN} {FILE}.html",
    "diff": f"diff {RUN} {{folder}}/other",
    "diverge": f"diverge {RUN} {{folder}}/other",
    "alarms": f"alarms {RUN}",
    "replay": f"replay {RUN}",
    "verify": f"verify {RUN}",
    "check": "check char_count",
    "play": "play char_count",
    "rank": f"rank {RUN} --out {FILE}.json",
    "exact": "exact grpo --group 2",
    "tune-objective": f"tune-objective {RUN} --metric pass@2",
    "objective": "objective grpo",
    "explain": "explain optim.lr",
    "config": "config show",
    "env": "env prompt char_count",
    "new": "new env {own}_task --folder {folder}",
    "probe": f"probe words {RUN}",
}
"""By command, a use of it that takes no training."""
SLOW = {
    "train": f"train char_count run={FILE} {' '.join(SMALL)}",
    "resume": "resume {folder}/copy-{own_name} steps=2",
    "eval": "eval char_count eval.tasks=2 rollout.max_tokens=4",
    "mismatch": "mismatch tiny",
    "sanity": f"sanity char_count run={FILE} --candidates 32 --keep 8 {' '.join(SMALL)} max_tokens=16 steps=10",
    "gain": f"gain {RUN} --samples 2 --tasks 2 --shots 1",
    "audit": "audit char_count --tasks 4",
    "arena": f"arena {RUN} tiny --env kuhn_poker --games 2",
    "scaling": f"scaling char_count examples=1,2 --seeds 2 --folder {FILE} {' '.join(SMALL)}",
}
ELSEWHERE = {
    "view": "serves until it is interrupted",
    "serve": "serves until it is interrupted",
    "serve-env": "serves until it is interrupted",
    "serve-learner": "serves until it is interrupted",
    "predict": "needs a registered prediction; the blocks of docs/lab/predict.md run it",
    "study": "the command of a study is that of scaling",
    "ablate": "as scaling",
    "base": "trains for minutes",
    "model": "needs a package of weights",
    "conform": "needs a trainer; tests/conformance has one",
    "check-weights": "needs a server; tests/engines/test_served.py has one",
}
"""Commands that are not here, and why."""
FAULTS = {"diff": 1, "doctor": None, "play": 1, "sanity": None}
"""Exit statuses that are results."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two finished runs in a folder whose name is not ASCII, and a log of another trainer."""
    place = tmp_path_factory.mktemp("läufe·")
    for name, rate in (("r", 1e-3), ("other", 1e-4)):
        done = command("train", "char_count", f"run={place / name}", f"lr={rate}", *SMALL)
        assert done.returncode == 0, done.stderr
    row = {"q": "Wie heißt π?", "text": "Ü · 3", "score": 1.0, "step": 0}
    (place / "log.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n", "utf-8")
    return place


def test_every_command_is_named() -> None:
    absent = set() if find_spec("gnomon_lab") else set(LABORATORY)
    assert {*QUICK, *SLOW, *ELSEWHERE} - absent == set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("output", ["ascii", "closed", "left"])
def test_a_command_ends_well(folder: Path, name: str, output: str) -> None:
    ends_well(folder, name, QUICK[name], output)


@pytest.mark.long
@pytest.mark.parametrize("name", SLOW)
def test_a_command_that_trains_or_samples_ends_well(folder: Path, name: str) -> None:
    ends_well(folder, name, SLOW[name], "ascii")


def ends_well(folder: Path, name: str, line: str, output: str) -> None:
    if name in LABORATORY and find_spec("gnomon_lab") is None:
        pytest.skip("the laboratory is not installed")
    own = folder / f"{name.replace('-', '_')}_{output}"
    if name == "resume":
        with gnomon.RunReader(folder / "r") as reader:
            assert reader.complete
        shutil.copytree(folder / "r", folder / f"copy-{own.name}")
    words = line.format(folder=folder, own=own.name if name == "new" else own, own_name=own.name).split()
    done = command(*words, output=output)
    assert "Traceback" not in done.stderr and "Error" not in done.stderr, done.stderr
    assert FAULTS.get(name, 0) in (None, done.returncode), done.stderr
    assert bool(done.stdout) == (output == "ascii")
    for written in (word for word in words if word.startswith((str(own), f"run={own}"))):
        assert Path(written.removeprefix("run=")).exists()
