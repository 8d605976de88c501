"""Trackers get what a run records, and nothing that they do stops or changes the run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

import gnomon
from commands import command
from gnomon.errors import ConfigError, ResourceError
from gnomon.monitoring.trackers import TRACKERS, MLflow, Tracker, WandB, tracker
from gnomon.monitoring.trackers.observer import Sample, TrackedRun, flat
from gnomon.store import RunReader

SMALL = {
    "threads": 1,
    "steps": 2,
    "rollout": {"prompts": 2, "group": 2, "max_tokens": 16},
    "eval": {"every": 1, "tasks": 2},
}


class Keeping:
    """A sink that keeps what it gets, and may raise or wait in one method."""

    def __init__(self, where: str = "", error: type[BaseException] = ConnectionError, seconds: float = 0.0) -> None:
        self.where, self.error, self.seconds = where, error, seconds
        self.run: TrackedRun | None = None
        self.logged: list[tuple[int, Mapping[str, float]]] = []
        self.shown: list[tuple[int, list[Sample]]] = []
        self.status = ""
        self.threads: set[str] = set()

    def start(self, run: TrackedRun) -> None:
        self._reach("start")
        self.run = run

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._reach("log")
        self.logged.append((step, values))

    def texts(self, step: int, samples: list[Sample]) -> None:
        self._reach("texts")
        self.shown.append((step, samples))

    def finish(self, status: str) -> None:
        self._reach("finish")
        self.status = status

    def _reach(self, name: str) -> None:
        self.threads.add(threading.current_thread().name)
        if name == self.where:
            time.sleep(self.seconds)
            if not self.seconds:
                raise self.error("no route to host")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "alone"
    gnomon.train("char_count", run=folder, quiet=True, **SMALL).close()
    return folder


def test_a_sink_gets_what_is_recorded(alone, tmp_path):
    sink = Keeping()
    gnomon.train("char_count", run=tmp_path / "r", quiet=True, observers=[Tracker(sink, texts=1)], **SMALL).close()
    assert sink.run is not None and sink.run.name == "r" and sink.run.step == 0 and sink.status == "finished"
    assert sink.run.settings["rollout.group"] == 2 and sink.threads == {"tracker Keeping"}
    assert json.loads(json.dumps(dict(sink.run.settings)))["engine.arguments"] == {}
    with RunReader(tmp_path / "r") as reader, RunReader(alone) as before:
        assert reader.fingerprint == before.fingerprint and sink.run.uuid == reader.uuid
        steps = [(step, values) for step, values in sink.logged if "reward" in values]
        assert [step for step, _ in steps] == [0, 1]
        for (_, values), body in zip(steps, reader.metrics(), strict=True):
            assert {name: values[name] for name in body["metrics"]} == body["metrics"] and values["seconds"] > 0
        measured = [(step, values) for step, values in sink.logged if "held_out/reward" in values]
        bodies = [record.body for kind in ("baseline", "evaluation") for record in reader.records(kind)]
        assert [step for step, _ in measured] == [0, 1, 2]
        assert [v["held_out/pass_at_1"] for _, v in measured] == [b["pass_at"]["1"]["value"] for b in bodies]
        (step, samples), *_ = sink.shown
        assert step == 0 and samples[0].reply == next(reader.records("held_out", 0)).body["reply"] and samples[0].prompt


def test_settings_are_values_that_json_has():
    supplied = {"a": MappingProxyType({"b": ("x", MappingProxyType({"c": ()})), "d": MappingProxyType({})}), "e": 1.5}
    found = flat(MappingProxyType(supplied))
    assert found == {"a.b": ["x", {"c": []}], "a.d": {}, "e": 1.5} == json.loads(json.dumps(found))


def same(run: Path, other: Path) -> bool:
    """Whether both runs are finished and equal."""
    with RunReader(run) as one, RunReader(other) as two:
        return one.status == two.status == "finished" and one.fingerprint == two.fingerprint


class Slow(Keeping):
    def log(self, step: int, values: Mapping[str, float]) -> None:
        time.sleep(0.05)
        super().log(step, values)


PLACES = ("start", "log", "texts", "finish")


def test_trackers_that_raise_hang_or_are_slow_change_nothing(alone, tmp_path, capsys):
    raising = [Tracker(Keeping(where, error)) for where in PLACES for error in (ConnectionError, SystemExit)]
    hanging = {where: Tracker(Keeping(where, seconds=3600), waiting=2, patience=0.2) for where in PLACES[:2]}
    never_ending, slow = Tracker(Keeping("finish", seconds=3600), patience=0.2), Slow()
    observers = [*raising, *hanging.values(), never_ending, Tracker(slow)]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        gnomon.train("char_count", run=tmp_path / "r", observers=observers, **SMALL).close()
    with RunReader(tmp_path / "r") as reader, RunReader(alone) as before:
        assert reader.status == "finished" and reader.fingerprint == before.fingerprint
    told = capsys.readouterr().out
    for error in ("ConnectionError", "SystemExit"):
        assert told.count(f"tracker Keeping raised {error}: no route to host") == len(PLACES)
    assert told.count("tracker Keeping has not finished after 0.2 s") == 3
    assert told.count("not called again") == len(raising) + 3
    assert [observer.dropped > 0 for observer in (*hanging.values(), never_ending)] == [True, True, False]
    assert len([each for each in warned if "slower than the run" in str(each.message)]) == len(hanging)
    assert len(slow.logged) == 5 and slow.status == "finished"


def test_names_and_packages_are_checked_before_a_run(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"E008.*'tensorbord'"):
        gnomon.train("char_count", run=tmp_path / "r", observers=["tensorbord"], quiet=True, **SMALL)
    monkeypatch.setattr("gnomon.monitoring.trackers.named.find_spec", lambda name: None)
    for name in TRACKERS:
        with pytest.raises(ResourceError, match=rf"E506.*\n.*\n.*gnomon\[{name}\]"):
            tracker(name)
    assert not (tmp_path / "r").exists()


@pytest.fixture
def tracked(tmp_path):
    """A run that is interrupted by its budget and resumed, with a new observer in each process."""

    def run(make) -> Path:
        folder = tmp_path / "runs" / "r"
        limited = {**SMALL, "budget": {"seconds": 1e-3}}
        gnomon.train("char_count", run=folder, quiet=True, observers=[make()], **limited).close()
        while RunReader(folder).status != "finished":
            gnomon.resume(folder, quiet=True, observers=[make()]).close()
        return folder

    return run


def test_tensorboard_reads_what_was_written(tracked, tmp_path):
    pytest.importorskip("tensorboardX")
    folder = tracked(lambda: "tensorboard")
    found = scalars(tmp_path / "runs" / "tensorboard" / "r")
    with RunReader(folder) as reader:
        assert found["reward"] == {n: body["metrics"]["reward"] for n, body in enumerate(reader.metrics())}
        assert found["held_out/pass_at_1"][2] == reader.held_out["pass_at"]["1"]["value"]
    assert set(found["held_out/pass_at_1"]) == {0, 1, 2}


def scalars(folder: Path) -> dict[str, dict[int, float]]:
    """The scalars of event files: records of TensorFlow, each a length, its CRC, the event and its CRC."""
    import struct

    from tensorboardX.proto.event_pb2 import Event

    found: dict[str, dict[int, float]] = {}
    for path in sorted(folder.iterdir()):
        data, at = path.read_bytes(), 0
        while at < len(data):
            (size,) = struct.unpack_from("<Q", data, at)
            event = Event.FromString(data[at + 12 : at + 12 + size])
            at += 16 + size
            for value in event.summary.value:
                if value.HasField("simple_value"):
                    found.setdefault(value.tag, {})[event.step] = pytest.approx(value.simple_value, abs=1e-6)
    return found


def test_wandb_offline_takes_a_run(tracked, tmp_path):
    pytest.importorskip("wandb")
    folder = tracked(lambda: Tracker(WandB(mode="offline", dir=str(tmp_path))))
    (first, *_) = sorted((tmp_path / "wandb").glob("offline-run-*/*.wandb"))
    with RunReader(folder) as reader:
        assert reader.uuid in first.name
    assert first.stat().st_size > 1000


def test_trackio_takes_a_run(tmp_path):
    pytest.importorskip("trackio")
    script = (
        "import gnomon, os\n"
        f"small = {SMALL!r}\n"
        "with gnomon.train('char_count', run='r', quiet=True, observers=['trackio'], **small) as run: pass\n"
        "print(sorted(os.listdir(os.environ['TRACKIO_DIR'])))\n"
    )
    environment = {"TRACKIO_DIR": str(tmp_path / "trackio"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    assert "gnomon.db" in done.stdout


def test_mlflow_goes_on_in_the_same_run(tracked, tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)  # Where MLflow puts artifacts unless it has a server.
    from mlflow import MlflowClient

    uri = f"sqlite:///{tmp_path}/mlflow.db"
    folder = tracked(lambda: Tracker(MLflow(uri=uri)))
    client = MlflowClient(uri)
    (run,) = client.search_runs([client.get_experiment_by_name("gnomon").experiment_id])
    with RunReader(folder) as reader:
        assert run.data.tags["gnomon.uuid"] == reader.uuid and run.info.status == "FINISHED"
        logged = {point.step: point.value for point in client.get_metric_history(run.info.run_id, "reward")}
        assert logged == {n: body["metrics"]["reward"] for n, body in enumerate(reader.metrics())}
        assert run.data.metrics["held_out/pass_at_1"] == reader.held_out["pass_at"]["1"]["value"]


def test_the_command_line_observes(tmp_path):
    pytest.importorskip("tensorboardX")
    small = ("steps=1", "prompts=1", "group=2", "max_tokens=8", "eval.tasks=1")
    words = ("train", "char_count", *small, f"run={tmp_path}/r", "--observe", "tensorboard")
    done = command(*words)
    assert done.returncode == 0, done.stderr
    assert scalars(tmp_path / "tensorboard" / "r")["reward"].keys() == {0}
    refused = command("train", "char_count", f"run={tmp_path}/s", "--observe", "none")
    assert refused.returncode == 2 and "error[E008]" in refused.stderr
