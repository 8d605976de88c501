"""Observers watch a run by one protocol, and nothing that they do changes it."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import gnomon
from gnomon.errors import ConfigErrors
from gnomon.monitoring import JsonLines
from gnomon.run.display import Silent
from gnomon.run.start import start
from gnomon.store import EvaluationRecord, RunReader, RunStatus, StepRecord, decode

SMALL = {
    "threads": 1,
    "steps": 3,
    "rollout": {"prompts": 2, "group": 2, "max_tokens": 16},
    "eval": {"every": 2, "tasks": 2},
    "save": {"every": 1},
}


class Raising(Silent):
    """Raises in one method."""

    def __init__(self, where: str, error: type[BaseException] = ValueError) -> None:
        self.calls: list[str] = []
        for name in ("start", "step", "evaluation", "finish"):
            setattr(self, name, lambda what, name=name: self._called(name, name == where, error))

    def _called(self, name: str, broken: bool, error: type[BaseException]) -> None:
        self.calls.append(name)
        if broken:
            raise error("not today")


class Slow(Silent):
    def step(self, record: StepRecord) -> None:
        time.sleep(0.2)


class Mutating(Silent):
    """Tries to change whatever it is handed, and the state of every generator."""

    def __init__(self) -> None:
        self.changed: list[str] = []

    def start(self, manifest: Mapping[str, Any]) -> None:
        self.spoil(manifest)
        self.spoil(manifest["settings"]["optim"])

    def step(self, record: StepRecord) -> None:
        random.seed(7)
        torch.manual_seed(7)
        self.spoil(record.metrics)
        for each in record.records:
            self.spoil(each.body)
            self.spoil(each.body.get("token_ids", ()))
            self.spoil(each.body.get("parts", [{}])[0])

    def evaluation(self, record: EvaluationRecord) -> None:
        self.spoil(record.result["pass_at"]["1"])

    def spoil(self, value: Any) -> None:
        for key in list(value) if isinstance(value, Mapping) else range(len(value)):
            try:
                value[key] = 0
            except TypeError:
                continue
            self.changed.append(str(key))


class Keeping(Silent):
    """Keeps what it is told, and what a person is told."""

    def __init__(self) -> None:
        self.manifest: Mapping[str, Any] = {}
        self.steps: list[StepRecord] = []
        self.evaluations: list[EvaluationRecord] = []
        self.ends: list[RunStatus] = []

    def start(self, manifest: Mapping[str, Any]) -> None:
        self.manifest = manifest

    def step(self, record: StepRecord) -> None:
        self.steps.append(record)

    def evaluation(self, record: EvaluationRecord) -> None:
        self.evaluations.append(record)

    def finish(self, status: RunStatus) -> None:
        self.ends.append(status)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "alone"
    gnomon.train("char_count", run=folder, quiet=True, **SMALL).close()
    return folder


def test_whatever_observers_do_the_run_is_the_same(alone, tmp_path, capsys):
    broken = [Raising(name) for name in ("start", "step", "evaluation", "finish")]
    leaving, mutating, last = Raising("step", SystemExit), Mutating(), Keeping()
    observers = [*broken, leaving, Slow(), mutating, last]
    began = time.monotonic()
    with gnomon.train("char_count", run=tmp_path / "r", observers=observers, **SMALL) as reader:
        elapsed = time.monotonic() - began
        with RunReader(alone) as before:
            assert reader.fingerprint == before.fingerprint and reader.status == "finished"
        assert elapsed > sum(row["seconds"] for row in reader.timings()) + 3 * 0.2  # Its time is not that of a step.
    told = capsys.readouterr().out
    for name, calls in zip(("start", "step", "evaluation", "finish"), (1, 1, 1, 1), strict=True):
        assert told.count(f"Raising.{name} raised ValueError: not today") == calls
    assert told.count("Raising.step raised SystemExit") == 1 and leaving.calls == ["start", "evaluation", "step"]
    assert broken[0].calls == ["start"] and broken[2].calls == ["start", "evaluation"]
    assert mutating.changed == [] and len(last.steps) == 3 and last.ends == ["finished"]


def test_an_observer_sees_what_is_stored(alone, tmp_path):
    seen = Keeping()
    with gnomon.train("char_count", run=tmp_path / "r", quiet=True, observers=[seen], **SMALL) as reader:
        assert [dict(record.metrics) for record in seen.steps] == [row["metrics"] for row in reader.metrics()]
        for record in seen.steps:
            stored = list(reader.records("rollout", record.step))
            mine = [each for each in record.records if each.kind == "rollout"]
            assert [each.body["reply"] for each in mine] == [each.body["reply"] for each in stored]
            assert sum(len(group.rollouts) for group in decode(record.records)) == len(stored) == 4
        assert [record.step for record in seen.evaluations] == [0, 2, 3]
        assert dict(seen.evaluations[-1].result) | {"pass_at": 0, "statuses": 0} == dict(reader.held_out) | {
            "pass_at": 0,
            "statuses": 0,
        }
        assert seen.manifest["uuid"] == reader.uuid and seen.manifest["step"] == 0
        assert seen.manifest["settings"]["budget"]["steps"] == 3


def test_a_resumed_run_tells_where_it_goes_on(alone, tmp_path):
    first, second = Keeping(), Keeping()
    limited = {**SMALL, "budget": {"seconds": 1e-3}}
    gnomon.train("char_count", run=tmp_path / "r", quiet=True, observers=[first], **limited).close()
    assert first.ends == ["interrupted"] and len(first.steps) < 3
    while RunReader(tmp_path / "r").status != "finished":
        second = Keeping()
        gnomon.resume(tmp_path / "r", quiet=True, observers=[second]).close()
    assert second.manifest["step"] == second.steps[0].step > 0 and second.ends == ["finished"]
    with RunReader(tmp_path / "r") as reader, RunReader(alone) as before:
        assert reader.fingerprint == before.fingerprint


def test_an_observer_learns_that_a_run_failed(tmp_path, monkeypatch):
    from gnomon.learners.local import LocalLearner

    def broken(self: LocalLearner, lr: float) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(LocalLearner, "optim_step", broken)
    seen = Keeping()
    with pytest.raises(ZeroDivisionError):
        gnomon.train("char_count", run=tmp_path / "r", quiet=True, observers=[seen], **SMALL)
    assert seen.ends == ["failed"]


def test_a_console_that_fails_does_not_end_the_run(alone, tmp_path):
    """As a pipe does that nobody reads any more."""

    class Broken(Raising):
        def message(self, text: str) -> None:
            raise BrokenPipeError

        def progress(self, done: int, total: int) -> None:
            raise BrokenPipeError

    config, _ = gnomon.loop.configure("char_count", SMALL)
    with start(tmp_path / "r", config, Broken("step")) as reader, RunReader(alone) as before:
        assert reader.fingerprint == before.fingerprint


def test_json_lines_of_a_run(alone, tmp_path):
    path = tmp_path / "logs" / "run.jsonl"
    gnomon.train("char_count", run=tmp_path / "r", quiet=True, observers=[JsonLines(path)], **SMALL).close()
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [line["event"] for line in lines] == [
        "start", "evaluation", "step", "step", "evaluation", "step", "evaluation", "finish",
    ]  # fmt: skip
    with RunReader(tmp_path / "r") as reader:
        assert [line["metrics"] for line in lines if line["event"] == "step"] == [
            row["metrics"] for row in reader.metrics()
        ]
        assert lines[-2] == {"event": "evaluation", "step": 3, **reader.held_out}
    assert lines[0]["settings"]["rollout"]["group"] == 2 and lines[-1]["status"] == "finished"


@pytest.mark.parametrize(
    ("observer", "named"),
    [(print, "no evaluation, finish, start, step"), (JsonLines, "the class JsonLines"), (RunReader, "the class")],
)
def test_what_is_no_observer_is_refused_before_the_run(tmp_path, observer, named):
    with pytest.raises(ConfigErrors, match=r"observers\[1\]") as caught:
        gnomon.train("char_count", run=tmp_path / "r", observers=[Silent(), observer], quiet=True, **SMALL)
    assert named in str(caught.value) and not (tmp_path / "r").exists()
