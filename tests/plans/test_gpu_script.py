"""The queue of what is measured on a GPU, in miniature: each part runs on a CPU and writes its figures at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from commands import python

ROOT = Path(__file__).parents[2]
SCRIPT = str(ROOT / "benchmarks/gpu.py")
FACTS = {"part", "date", "card", "torch", "commit", "status", "reason", "figures"}

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="here the parts are not miniatures")


def part(name: str, out: Path, **variables: str) -> dict[str, Any]:
    """The file of a part, which did not fail."""
    words = ("--one", name, "--out", str(out), "--device", "cpu")
    done = python(SCRIPT, *words, env={"OMP_NUM_THREADS": "1", "GNOMON_VLLM_PYTHON": "", **variables}, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((out / f"{name}.json").read_text())
    assert set(found) == FACTS and found["card"] == "cpu" and found["torch"] == torch.__version__
    assert [path.name for path in out.iterdir()] == [f"{name}.json"]
    return dict(found)


def gradient_and_tests(figures: list[dict[str, Any]]) -> None:
    gradient, tested = figures
    assert gradient["name"] == "gradient of llama in float32" and 0 < gradient["smallest"] <= gradient["largest"] < 3e-6
    assert tested["name"] == "tests/learners/test_device.py" and tested["passed"] > 3 and tested["failed"] == 0


def step_beside_trl(figures: list[dict[str, Any]]) -> None:
    sizes, ours, theirs, ratio = figures
    assert (sizes["prompts"], sizes["replies"], sizes["reply_tokens"]) == (2, 2, 8)
    assert (ours["name"], theirs["name"]) == ("gnomon, LoRA 16", "trl, LoRA 16")
    assert ratio["times_as_fast"] == pytest.approx(theirs["step_seconds"] / ours["step_seconds"])
    assert ratio["share_of_memory"] == pytest.approx(ours["peak_gib"] / theirs["peak_gib"])


def tasks_before_and_after(figures: list[dict[str, Any]]) -> None:
    assert [each["name"] for each in figures] == ["addition, 2x2", "subtraction, 2x2"]
    for each in figures:
        assert each["steps"] == len(each["reward"]) == 2 and each["step_seconds"] > 0
        assert list(each["held_out"]) == ["0", "2"]


def plan_and_run(figures: list[dict[str, Any]]) -> None:
    *constants, run = figures
    assert [each["name"] for each in constants] == [
        "products in torch.float32", "products in torch.bfloat16", "traffic", "a small operation", "noise",
        "Packed of one row",
    ]  # fmt: skip
    assert all(value > 0 for each in constants[:-1] for value in each.values() if isinstance(value, float))
    assert 0.5 < run["planned_gib"] / run["gib"] < 2 and run["planned_seconds"] > 0 and run["seconds"] > 0


def processes(figures: list[dict[str, Any]]) -> None:
    assert [each["name"] for each in figures] == ["1 processes", "2 processes"]
    assert all(each["step_seconds"] > 0 for each in figures)


SLOW = {
    "a": gradient_and_tests, "c": step_beside_trl, "d": tasks_before_and_after, "g": plan_and_run, "h": processes
}  # fmt: skip
"""Parts of 15 to 30 seconds of processor time."""


@pytest.mark.long
@pytest.mark.parametrize("name", SLOW)
def test_a_slow_part_writes_its_figures(tmp_path: Path, name: str) -> None:
    for package in ("trl", "peft", "datasets") if name == "c" else ():
        pytest.importorskip(package)
    SLOW[name](part(name, tmp_path)["figures"])


def test_the_trainer_is_timed_with_the_shapes_of_the_table(tmp_path: Path) -> None:
    figures = part("b", tmp_path)["figures"]
    assert [each["name"] for each in figures] == ["LoRA 4, 1 x 96", "all weights, 1 x 96", "all weights, 4 x 24"]
    assert all(each["tokens_per_second"] > 0 and each["mfu_percent"] > 0 for each in figures)


def test_operations_are_counted_as_prime_rl_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand, of two layers: the attention is as wide as the model and not causal, and the weights of an adapter
    count more than those that it is beside."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from on_gpu.trainer import Case, flops

    from gnomon.api import configure
    from gnomon.objectives import objective
    from gnomon.run.makers import make_learner

    for rank in (0, 4):
        config, _ = configure("countdown", {"policy": {"path": "tiny", "lora": {"rank": rank}}})
        learner = make_learner(config, objective("reinforce"))
        shape = learner.policy.model.config
        weights = sum(
            value.numel()
            for name, value in learner.policy.model.named_parameters()
            if value.dim() == 2 and "lora" not in name
        )
        adapter = sum(value.numel() for value in learner.parameters.values()) if rank else 0
        linear = 30 * (4 * weights + 6 * adapter if rank else 6 * weights)
        attention = 12 * shape.num_hidden_layers * shape.hidden_size * (10**2 + 20**2)
        assert flops(learner, Case(rank, [10, 20])) == linear + attention


def test_sampling_is_timed_beside_the_limit(tmp_path: Path) -> None:
    memory, *rows, steps = part("e", tmp_path)["figures"]
    assert memory["gb_per_second"] > 0 and steps["step_milliseconds"] > 0 and steps["replayed"] == 0
    assert [each["name"] for each in rows] == ["1 rows", "4 rows"]
    assert all(each["tokens_per_second"] > 0 and each["limit_tokens_per_second"] > 0 for each in rows)


def test_what_is_not_installed_is_a_reason(tmp_path: Path) -> None:
    found = part("f", tmp_path)
    assert (found["status"], found["reason"], found["figures"]) == ("skipped", "GNOMON_VLLM_PYTHON is not set", [])


@pytest.mark.long
def test_a_part_that_fails_or_is_cut_short_does_not_stop_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first two parts are other modules here: one raises after a figure, and one is killed after a figure."""
    queue = """
import sys
from types import ModuleType
sys.path.insert(0, "benchmarks")
import gpu

def module(name, act):
    found = sys.modules["on_gpu." + name] = ModuleType(name)
    found.measure = act

def breaks(record):
    record.add("first", seconds=1.0)
    raise RuntimeError("out of memory")

def dies(record):
    import os, signal
    record.add("first", seconds=2.0)
    os.kill(os.getpid(), signal.SIGKILL)

module("breaks", breaks)
module("dies", dies)
gpu.PARTS = {"a": gpu.Part("breaks"), "b": gpu.Part("dies"), "f": gpu.PARTS["f"]}
gpu.__file__ = sys.argv[1]
gpu.main()
"""
    script = tmp_path / "three.py"
    script.write_text(queue.replace("sys.argv[1]", repr(str(script))))
    command = [sys.executable, str(script), "--out", str(tmp_path / "out"), "--device", "cpu"]
    environment = {**os.environ, "GNOMON_VLLM_PYTHON": ""}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    found = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "out").iterdir()}
    assert done.returncode == 1
    assert {name: each["status"] for name, each in found.items()} == {"a": "failed", "b": "cut short", "f": "skipped"}
    assert found["a"]["reason"] == "RuntimeError: out of memory"
    assert [found[name]["figures"] for name in "ab"] == [[{"name": "first", "seconds": n}] for n in (1.0, 2.0)]
