"""Run folders on a real disk, and processes of their own to break them with."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import gnomon.store
from gnomon.store import Record, Run

SOURCE = Path(gnomon.store.__file__).parent.parent.parent
DRIVER = Path(__file__).parent / "driver.py"


@pytest.fixture(scope="session")
def python() -> Callable[..., subprocess.Popen[str]]:
    """Start Python on arguments, with environment variables, in a process that sees the package."""

    def start(*arguments: object, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(SOURCE), **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


@pytest.fixture(scope="session")
def drive(python) -> Callable[..., tuple[int, str, str]]:
    """Run the driver to its end or its death: exit code, output, complaints."""

    def run(folder: Path, *arguments: object, **environment: str) -> tuple[int, str, str]:
        process = python(DRIVER, folder, *arguments, **environment)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    return run


@pytest.fixture
def make(tmp_path) -> Callable[..., Path]:
    """A finished run of a few steps; `change` may alter the body of any record on its way in."""

    def build(name: str = "run", steps: int = 3, change=lambda record: record.body, **genesis: object) -> Path:
        folder = tmp_path / name
        config = {"config": {"seed": 1, "optim": {"lr": 0.1}, **genesis}}
        with Run.create(folder, recipe="seed = 1\n", manifest={"python": "3.11"}, genesis=config) as run:
            run.append([Record(kind="baseline", body={"pass@1": 0.25})])
            for step in range(steps):
                made = [
                    Record(kind="rollout", step=step, task=t, sample=s, body=_rollout(step, t, s))
                    for t in range(2)
                    for s in range(2)
                ]
                made.append(Record(kind="step", step=step, body={"reward": step / 7, "loss": -1.5}))
                run.append([Record(**{**_place(r), "body": change(r)}) for r in made])
                run.time(step, {"sample_seconds": 0.5})
                run.commit_checkpoint(step + 1, _weights, {"step": step + 1, "best": 1 / 3})
            run.append([Record(kind="evaluation", step=steps, body={"pass@1": 0.5})])
            run.set_status("finished")
        return folder

    return build


def _place(record: Record) -> dict[str, object]:
    return {"kind": record.kind, "step": record.step, "task": record.task, "sample": record.sample}


def _rollout(step: int, task: int, sample: int) -> dict[str, object]:
    return {
        "text": f"step {step} task {task} sample {sample}: " + "so 3 * 4 = 12, " * 30,
        "token_ids": list(range(step, step + 50)),
        "logprobs": [-0.1 * (i + 1) / 3 for i in range(50)],
        "verdict": {"status": "correct", "parts": [{"name": "answer", "value": 1.0, "weight": 1.0}], "span": [3, 9]},
        "reward": float(sample),
        "status": "correct" if sample else "wrong",
        "tokens": 50,
    }


def _weights(path: Path) -> None:
    (path / "model.safetensors").write_bytes(bytes(range(256)) * 16)
    (path / "optim").mkdir()
    (path / "optim" / "moments.safetensors").write_bytes(b"\x01" * 1000)


@pytest.fixture
def rollout() -> Callable[[int, int, int], dict[str, object]]:
    """Body of the rollout of a step, task and sample."""
    return _rollout


@pytest.fixture
def weights() -> Callable[[Path], None]:
    """A learner's `write`: two files, one of them in a folder."""
    return _weights
