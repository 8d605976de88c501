"""The script behind docs/reference-curves.md, in miniature."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gnomon.envs import Env
from gnomon.rejudge.again import JudgeSpec, build_judge
from gnomon.store import RunReader

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "reference_curves.py"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference_curves", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "reference_curves", module)
    spec.loader.exec_module(module)
    monkeypatch.chdir(SCRIPT.parents[1])
    return module


@pytest.mark.long
def test_finished_runs_are_kept_and_a_stopped_one_goes_on(script, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(
        script, "TASKS", {"letters": {"type": "char_count", "length": (3, 4)}, "sums": {"type": "arithmetic"}}
    )
    recipe: dict[str, Any] = {
        "prompts": 2, "group": 2, "max_tokens": 8, "steps": 2, "seconds": 1e-9, "quiet": True,
        "eval": {"tasks": 4, "samples": 2, "pass_at": [1, 2]},
    }  # fmt: skip
    monkeypatch.setattr(script, "MODELS", {"small": {"policy": "tiny"}, "fresh": {"policy": "tiny-fresh"}})
    monkeypatch.setattr(script, "TITLES", {"small": "Small", "fresh": "Fresh"})
    place, folder, page = ("small", "letters"), tmp_path / "small" / "letters-0", tmp_path / "page.md"
    script.train(*place, 0, folder, recipe)
    assert script.finished(tmp_path) == {}  # It has met its limit of time after the first step.
    script.train(*place, 0, folder, recipe)
    assert script.finished(tmp_path) == {place: [folder]}
    with RunReader(folder) as reader:
        before, times = reader.fingerprint, reader.timings()
    script.train(*place, 0, folder, recipe)
    with RunReader(folder) as reader:
        assert (reader.fingerprint, reader.timings()) == (before, times)
    page.write_text(f"Before.\n\n{script.BEGIN}\nold\n{script.END}\n\nAfter.\n", encoding="utf-8")
    script.publish(tmp_path, page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("Before.\n") and text.endswith("After.\n") and "old" not in text
    assert f"- Small, letters, seed 0: `{before}`" in text and "Fresh" not in text
    row = next(line for line in text.splitlines() if line.startswith("| Small | letters | 0 | "))
    assert len(row.split("|")) == len(
        next(line for line in text.splitlines() if line.startswith("| model | task |")).split("|")
    )
    drawn = page.with_suffix(".svg").read_bytes()
    script.publish(tmp_path, page)
    assert page.read_text(encoding="utf-8") == text and page.with_suffix(".svg").read_bytes() == drawn


def test_bars_of_an_interval_around_zero_are_drawn(script):
    ends = [{"value": 0.0, "low": 1.3877787807814457e-17, "high": 0.157}, {"value": 0.5, "low": 0.25, "high": 0.75}]
    assert script.bars(ends) == [[0.0, 0.25], [0.157, 0.25]]


def test_every_task_has_right_answers_that_its_verifier_accepts(script):
    pytest.importorskip("reasoning_gym")
    import json

    for spec in script.TASKS.values():
        options = {name: value for name, value in spec.items() if name != "type"}
        env = build_judge(JudgeSpec(spec["type"], json.dumps(options, sort_keys=True)))
        assert isinstance(env, Env)
        for index in range(3):
            task = env.tasks("test")[index]
            answer = env.solution(task)
            assert env.verify(task, f"It is not 999, it is {answer}.").correct
            assert not env.verify(task, f"{answer}, or 999").correct and not env.verify(task, "").correct
