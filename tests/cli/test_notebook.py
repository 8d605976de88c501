"""A first user's notebook: cells run in a real Jupyter kernel."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import gnomon
import gnomon.errors

README = Path(__file__).parents[2] / "README.md"
SMALL = 'steps=2, rollout={"prompts": 2, "group": 2, "max_tokens": 8}, eval={"tasks": 2}, threads=1'

CLASS = f"""
import random
from dataclasses import dataclass

import gnomon
from gnomon.envs import SingleTurn, identity
from gnomon.envs.base import user
from gnomon.types import Task


@dataclass(frozen=True, kw_only=True)
class Vowels(SingleTurn):
    def make(self, rng: random.Random) -> Task:
        word = "".join(rng.choices("abei", k=5))
        return Task(id=identity("v", word), messages=user(f"vowels in {{word}}?"), answer=sum(c in "aei" for c in word))

    def check(self, task: Task, answer: str) -> bool:
        return answer.strip() == str(task.answer)

    def solution(self, task: Task) -> str:
        return str(task.answer)


run = gnomon.train(Vowels(), run="cell", quiet=True, {SMALL})
again = gnomon.train(Vowels(), run="again", quiet=True, {SMALL})
print(run.status, run.fingerprint == again.fingerprint)
"""

FUNCTION = f"""
rows = [{{"prompt": f"{{n}}+1?", "answer": str(n + 1)}} for n in range(20)]

def reward(completion, answer):
    return completion.strip() == f"<answer>{{answer}}</answer>"

print(gnomon.train(rows, reward=reward, run="rows", quiet=True, {SMALL}).status)
"""

WRONG = f"""
def wrong(completion, answer):
    text = completion.strip()
    return text.anser

try:
    gnomon.train(rows, reward=wrong, run="wrong", quiet=True, {SMALL})
except gnomon.errors.VerifierError as error:
    print(error)
"""


def executed(folder: Path, *cells: str) -> list[str]:
    """What each cell prints."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell.strip()) for cell in cells])
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    return ["".join(output.get("text", "") for output in cell.outputs) for cell in notebook.cells]


@pytest.mark.long
def test_the_readme_a_class_and_a_reward_run_in_a_kernel(tmp_path):
    block = README.read_text().split("```python\n")[1].split("```")[0]
    readme, cell, function, wrong = executed(tmp_path, block, CLASS, FUNCTION, WRONG)
    with gnomon.RunReader(tmp_path / "runs/second") as run:
        assert run.status == "finished" and run.fingerprint in readme
    assert cell.strip() == "finished True"
    assert function.strip() == "finished"
    assert "Cell In[4], line 3, in wrong: return text.anser" in wrong and not (tmp_path / "wrong").exists()
    recipe = (tmp_path / "cell/recipe.toml").read_text()
    assert 'type = "object:Vowels"' in recipe
    with gnomon.RunReader(tmp_path / "cell") as run:
        assert "def check(self, task: Task, answer: str)" in run.manifest["env"]["source"]


LONG = """
import gnomon
run = gnomon.train("char_count", run="long", quiet=True, steps=10_000,
                   rollout={"prompts": 2, "group": 2, "max_tokens": 8}, eval={"tasks": 2}, threads=1)
print(run.status, run.steps < 10_000)
"""
GO_ON = """
with open("long/recipe.toml") as file:
    print("char_count" in file.read())
"""


@pytest.mark.long
def test_an_interrupt_of_the_kernel_ends_the_step_and_saves(tmp_path):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(LONG), nbformat.v4.new_code_cell(GO_ON)])
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    journal = tmp_path / "long/journal.db"

    def interrupt() -> None:
        while not (journal.exists() and steps(tmp_path / "long") >= 2):
            time.sleep(0.2)
        asyncio.run(client.km.interrupt_kernel())

    watcher = threading.Thread(target=interrupt, daemon=True)
    watcher.start()
    client.execute()
    watcher.join(10)
    printed = ["".join(output.get("text", "") for output in cell.outputs) for cell in notebook.cells]
    assert "interrupted True" in printed[0], printed
    with gnomon.RunReader(tmp_path / "long") as run:
        assert run.status == "interrupted" and f"step {run.steps}" in run.reason


def steps(folder: Path) -> int:
    with suppress(gnomon.errors.GnomonError), gnomon.RunReader(folder) as run:  # It is being made.
        return run.steps
    return 0


@pytest.fixture(autouse=True)
def quiet_kernels(monkeypatch, tmp_path):
    """Kernels write their files below the test's folder."""
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / ".jupyter"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
