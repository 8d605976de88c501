"""Without the packages of the extra `train`: what reads, judges and audits works, and the rest says what to install."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import gnomon
from gnomon.errors import TRAIN

BLOCKED = f"""
from importlib.machinery import PathFinder
found = PathFinder.find_spec
def absent(name, path=None, target=None):
    return None if name.partition(".")[0] in {sorted(TRAIN)} else found(name, path, target)
PathFinder.find_spec = staticmethod(absent)
"""
"""Run at the start of every Python process: these packages are not found."""
REWARD = """
def accuracy(completions, solution, **columns):
    return [float(right in reply[-1]["content"]) for reply, right in zip(completions, solution)]
"""
LOG = """
{"step": 0, "prompt": "1+1?", "reply": "2", "reward": 1.0}
{"step": 1, "prompt": "1+1?", "reply": "3", "reward": 0}
""".lstrip()
WORKS = {
    "check char_count": "0 failed",
    "audit trl:reward.py:accuracy --tasks tasks.jsonl": "a right answer, then a wrong one",
    "import log.jsonl imported --format jsonl": "2 rollouts",
    "show run": "held-out",
    "show run 0": "<answer>",
    "ls .": "finished",
    "tail run --no-follow": "",
    "report run out.html": "out.html",
    "doctor run": "rollouts",
    "doctor": "nothing wrong was found",
    "alarms run": "alarms in 1 step",
    "replay run": "0 verdicts changed",
    "verify run": "records chain to",
    "diff run run": "are the same run",
    "rank run": "tasks",
    "env list": "countdown",
    "export-rollouts run out.jsonl": "rollouts",
}
"""Commands, with a piece of what they print."""
NEEDS_MORE = [
    "train char_count run=new",
    "exact grpo",
    "objective grpo",
    "resume run",
    "eval char_count",
    "plan char_count",
    "gain run",
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, a reward, tasks and a log."""
    folder = tmp_path_factory.mktemp("light")
    gnomon.train(
        "char_count", run=str(folder / "run"), steps=1, rollout={"prompts": 2, "group": 2, "max_tokens": 8},
        eval={"tasks": 2}, quiet=True,
    )  # fmt: skip
    for name, text in {
        "reward.py": REWARD, "log.jsonl": LOG, "blocked/sitecustomize.py": BLOCKED,
        "tasks.jsonl": '{"prompt": "What is 20 + 3?", "answer": "23"}\n{"prompt": "What is 4 + 3?", "answer": "7"}\n',
    }.items():  # fmt: skip
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def light(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(place / "blocked")}
    return subprocess.run(
        [sys.executable, *words], cwd=place, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )


@pytest.mark.parametrize("words", WORKS)
def test_a_command_works_without_torch(place: Path, words: str) -> None:
    done = light(place, "-m", "gnomon", *shlex.split(words))
    assert WORKS[words] in done.stdout, done.stdout + done.stderr
    assert "error[" not in done.stderr and "Traceback" not in done.stderr
    assert "cannot be loaded" not in done.stderr, "no panel of the laboratory imports torch"


@pytest.mark.parametrize("words", NEEDS_MORE)
def test_a_command_that_needs_more_says_what_to_install(place: Path, words: str) -> None:
    done = light(place, "-m", "gnomon", *shlex.split(words))
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "error[E505] the package " in done.stderr and 'pip install "gnomon[train]"' in done.stderr


@pytest.mark.parametrize(
    "line",
    [
        "gnomon.train('char_count', run='new')",
        "gnomon.loop.Policy",
        "gnomon.evaluate('run', 'char_count')",
        "gnomon.resume('run')",
    ],
)
def test_a_call_that_needs_more_says_what_to_install(place: Path, line: str) -> None:
    done = light(place, "-c", f"import gnomon; {line}")
    assert "error[E505] the package " in done.stderr and 'fix: pip install "gnomon[train]"' in done.stderr


def test_verifiers_and_the_viewer_work_without_torch(place: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from gnomon.verifiers import Number
from gnomon.viewer import Viewer

Viewer([Path("run")])
print(Number().accepts("1/2", "0.5"), *({set(TRAIN)!r} & sys.modules.keys()))
"""
    done = light(place, "-c", code)
    assert done.stdout.split() == ["True"], done.stderr


def test_the_packages_are_those_of_the_extra() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    assert {text.split(">")[0] for text in project["optional-dependencies"]["train"]} == TRAIN
    assert not {text.split(">")[0] for text in project["dependencies"]} & TRAIN
    assert any("train" in text for text in project["optional-dependencies"]["dev"])
