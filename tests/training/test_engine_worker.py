"""Whole runs whose engine has a worker of its own: killed under way, resumed, and measured in every step."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gnomon
from gnomon.api import configure
from gnomon.engines.vllm import VLLM
from gnomon.learners.local import LocalLearner
from gnomon.metrics import METRICS
from gnomon.run import mismatch
from gnomon.store import RunReader, verify
from gnomon.types import Request
from models.seeing import seeing

WORKER = Path(__file__).parents[1] / "engines" / "policy_worker.py"
SMALL: dict[str, Any] = {
    "steps": 4,
    "rollout": {"prompts": 3, "group": 4, "max_tokens": 12, "context": 256},
    "eval": {"tasks": 2, "every": 100},
    "save": {"every": 2},
    "engine": {"type": "vllm", "python": sys.executable},
}
MEASURED = {name for name in METRICS if name.startswith(("mismatch/", "engine/"))}


@pytest.fixture(autouse=True)
def worker(monkeypatch) -> None:
    monkeypatch.setattr("gnomon.run.makers.engine.WORKER", WORKER)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A run that nothing happens to."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gnomon.run.makers.engine.WORKER", WORKER)
        gnomon.train("char_count", run=folder, quiet=True, **SMALL).close()
    return folder


def replies(folder: Path) -> list[tuple[Any, ...]]:
    with RunReader(folder) as reader:
        found = [(record.place, record.body["token_ids"]) for record in reader.records() if "token_ids" in record.body]
        return found


@pytest.mark.needs("PIL")
def test_images_of_a_prompt_reach_a_worker(tmp_path):
    policy = seeing(tmp_path / "smolvlm", "smolvlm")
    more = {"policy": str(policy), "regularize": {"entropy": 1.0}, "optim": {"lr": 0.01, "warmup": 0}, "steps": 2}
    with gnomon.train("count_shapes", run=tmp_path / "run", quiet=True, **SMALL | more) as run:
        assert run.manifest["logp_mismatch"] < 1e-4
        assert all(step["metrics"]["logp_mismatch"] < 1e-4 for step in run.metrics())


def test_every_step_measures_the_difference(whole):
    with RunReader(whole) as reader:
        assert reader.status == "finished" and reader.manifest["tier"] == "measured" and reader.varies
        assert reader.manifest["logp_mismatch"] < 1e-4
        for step in reader.metrics():
            assert step["metrics"].keys() >= MEASURED
            assert (
                step["metrics"]["mismatch/mean"] <= step["metrics"]["mismatch/p99"] <= step["metrics"]["logp_mismatch"]
            )
            assert step["metrics"]["logp_mismatch"] < 1e-4 and step["metrics"]["mismatch/outside"] == 0
            assert step["metrics"]["engine/restarts"] == step["metrics"]["engine/resampled"] == 0
        assert not any(name.startswith("weights/") for step in reader.metrics() for name in step["metrics"])
        receipts = reader.events("weights")
        assert [event["step"] for event in receipts] == [1, 2, 3]
        assert all(event["weights/proven"] == 1 for event in receipts)
        worst = reader.events("mismatch")
        assert [event["step"] for event in worst] == [0, 1, 2, 3]
        assert all(
            event["token"] == step["metrics"]["mismatch/token"]
            for event, step in zip(worst, reader.metrics(), strict=True)
        )
    assert verify(whole)


@pytest.mark.long
def test_a_worker_killed_under_way_costs_nothing_but_time(whole, tmp_path, monkeypatch):
    """The 40th sample is of the training: probes, 24 completions before the run and a baseline of 2 come before."""
    plan = tmp_path / "plan"
    plan.write_text("die 40")
    monkeypatch.setenv("GNOMON_TEST_PLAN", str(plan))
    folder = tmp_path / "run"
    gnomon.train("char_count", run=folder, quiet=True, **SMALL).close()
    assert not plan.exists() and replies(folder) == replies(whole)
    with RunReader(folder) as reader:
        assert reader.status == "finished" and sum(step["metrics"]["engine/restarts"] for step in reader.metrics()) == 1
        assert sum(step["metrics"]["engine/resampled"] for step in reader.metrics()) >= 1


SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "several updates": {"optim": {"epochs": 2, "minibatches": 2}},
    "a critic": {"objective": "ppo"},
    "a penalty": {"objective": "grpo", "regularize": {"kl": 0.1}},
    "a full divergence": {"objective": "grpo", "regularize": {"kl": 0.1, "estimator": "full"}},
    "rows of one group": {"objective": "gspo", "optim": {"micro_batch": 16}},
    "more evaluations": {"eval": {"tasks": 2, "every": 1}},
}


def note_computations(monkeypatch: pytest.MonkeyPatch, events: Path) -> None:
    """Write a line for every computation of a learner into the file in which the worker notes what it is asked."""
    monkeypatch.setenv("GNOMON_TEST_ASKED", str(events))
    events.write_text("")
    for verb in ("score", "forward_backward", "optim_step"):
        real = getattr(LocalLearner, verb)

        def noted(self, *args, real=real, **options):
            with events.open("a") as file:
                file.write("compute\n")
            return real(self, *args, **options)

        monkeypatch.setattr(LocalLearner, verb, noted)


def awake_computations(asked: list[str]) -> int:
    """Computations of the learner while the engine was awake."""
    asleep, found = False, 0
    for verb in asked:
        asleep = verb != "wake" and (asleep or verb == "sleep")
        found += verb == "compute" and not asleep
    return found


def test_an_engine_sleeps_while_the_difference_is_measured(tmp_path, monkeypatch):
    """By `gnomon mismatch`, for every dtype of the learner."""
    note_computations(monkeypatch, events := tmp_path / "asked")
    engine = {**SMALL["engine"], "cache_gib": 1, "sleep": True, "dtype": "float32"}
    config, _ = configure("char_count", {"engine": engine, "rollout": {"prompts": 2, "group": 2, "max_tokens": 8}})
    found = [line for line in mismatch.lines(config, lambda _: None) if line.engine == "vllm"]
    assert found and not any(line.failed for line in found)
    while_open = [part.split() for part in events.read_text().split("open")[1:]]
    assert len(while_open) == len(found)
    for asked in while_open:  # The first computations after `open` are of this engine.
        start = asked[: asked.index("compute") + 1]
        assert start[-2:] == ["sleep", "compute"] and awake_computations(start) == 0


@pytest.mark.parametrize("name", SETTINGS)
def test_an_engine_sleeps_while_the_learner_computes(tmp_path, monkeypatch, name):
    """And the run is the same. The worker refuses whatever is asked of it while it sleeps."""
    events = tmp_path / "asked"
    note_computations(monkeypatch, events)
    settings = {**SMALL, "steps": 2, **SETTINGS[name]}
    found = {}
    for sleeps in (False, True):
        monkeypatch.setenv("GNOMON_TEST_ASKED", str(events))
        events.write_text("")
        run = tmp_path / f"sleep {sleeps}"
        gnomon.train(
            "char_count",
            run=run,
            quiet=True,
            **(settings | {"engine": {**SMALL["engine"], "cache_gib": 1, "sleep": sleeps}}),
        )
        with RunReader(run) as reader:
            found[sleeps] = replies(run), reader.fingerprint
    assert found[True] == found[False]
    asked = events.read_text().split()
    assert (
        asked.count("compute") >= 4
        and awake_computations(asked) == 0
        and asked.count("sleep") - asked.count("wake") in (0, 1)
        and asked.count("sleep") == 3
    )


class Stops:
    """Ends a run at a step as a second Ctrl-C does, after the step was stored."""

    def __init__(self, step: int) -> None:
        self.at = step

    def start(self, manifest): ...
    def evaluation(self, record): ...
    def finish(self, status): ...
    def step(self, record):
        if record.step == self.at:
            raise KeyboardInterrupt


def interrupted(folder: Path) -> Path:
    """A run of which the checkpoint is of step 2, and steps 0 to 2 are recorded."""
    with pytest.raises(KeyboardInterrupt):
        gnomon.train("char_count", run=folder, quiet=True, observers=[Stops(2)], **SMALL)
    with RunReader(folder) as reader:
        assert reader.steps == 3
    return folder


@pytest.fixture()
def otherwise(monkeypatch) -> Callable[[], None]:
    """From its call on, every request draws with another seed, as on a machine where no bit repeats."""
    begin = VLLM._begin

    def other() -> None:
        monkeypatch.setattr(VLLM, "_begin", lambda self, worker, request: begin(self, worker, reseeded(request)))

    return other


def reseeded(request: Request) -> Request:
    return replace(request, key=bytes(15 - byte % 16 for byte in request.key))


@pytest.mark.long
def test_a_resumed_run_reads_what_is_complete_and_samples_the_rest(whole, tmp_path, otherwise):
    folder = interrupted(tmp_path / "run")
    before = replies(folder)
    otherwise()
    gnomon.resume(folder, quiet=True).close()
    after = replies(folder)
    assert after[: len(before)] == before  # Step 2 was repeated from what was recorded, bit for bit.
    assert after != replies(whole) and len(after) == len(replies(whole))
    with RunReader(folder) as reader:
        assert reader.status == "finished" and reader.attempts == []
        assert [(event["of"], event["step"], event["rollouts"]) for event in reader.events("read")] == [
            ("rollout", 2, 12)
        ]
    assert verify(folder)


@pytest.mark.long
def test_rollouts_are_read_also_where_the_learner_does_not_repeat(tmp_path, otherwise, monkeypatch):
    """The step that differs is an attempt; the steps after it were given up with it, and are read from there."""
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        gnomon.train("char_count", run=folder, quiet=True, observers=[Stops(3)], **{**SMALL, "save": {"every": 100}})
    before = replies(folder)
    otherwise()
    step = LocalLearner.optim_step
    monkeypatch.setattr(LocalLearner, "optim_step", lambda self, lr: step(self, lr * (1 + 1e-3)))
    gnomon.resume(folder, quiet=True).close()
    assert replies(folder)[: len(before)] == before
    with RunReader(folder) as reader:
        assert reader.status == "finished" and len(reader.attempts) == 1
        read = [(event["of"], event["step"]) for event in reader.events("read")]
    assert read == [("held_out", 0), *(("rollout", step) for step in range(4))]
    assert verify(folder)
