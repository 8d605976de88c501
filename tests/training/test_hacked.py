"""A reward that can be gamed: refused before the run, rung during it, and harmless once gated."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

import gnomon
from commands import command
from gnomon.errors import ConfigError
from gnomon.monitoring.alarms import alarms
from gnomon.run.display import Silent
from gnomon.run.reward_weights import RULE, weigh
from gnomon.store import RunReader

ROOT = Path(__file__).parents[2]
STEPS = f"{ROOT / 'benchmarks' / 'gameable.py'}:Steps"
WATCHED = Path(__file__).with_name("watched.py")
KNOWN = {"acknowledge": ["correctness", "exploit", "sentinels"]}
"""What the environments here are made to be."""
SMALL = {
    "audit": KNOWN,
    "threads": 1,
    "steps": 6,
    "rollout": {"prompts": 4, "group": 4, "max_tokens": 32},
    "eval": {"tasks": 4},
}


class Ear(Silent):
    """Keeps the messages of a run."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def message(self, text: str) -> None:
        self.heard.append(text)


def started(folder: Path, env: str, ear: Ear | None = None, **settings: object) -> RunReader:
    from gnomon.api import configure
    from gnomon.run.start import start

    config, _ = configure(env, settings)
    return start(folder, config, ear or Ear())


def test_a_reward_that_pays_more_for_steps_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError) as refused:
        gnomon.train(STEPS, run=tmp_path / "r", quiet=True, **SMALL)
    text = str(refused.value)
    assert refused.value.code == "E140" and "a correct answer pays 1; the other parts pay at most 6.1" in text
    assert RULE in text and not (tmp_path / "r").exists()


def test_it_may_be_acknowledged_by_name_or_gated():
    from gnomon.config import Env
    from gnomon.run.find import make_env

    env = make_env(Env(type=STEPS))
    assert weigh(env, [RULE]).endswith("Acknowledged.")
    with pytest.raises(ConfigError):
        weigh(env, ["something.else"])
    assert "at most nothing" in weigh(make_env(Env(type=STEPS, gate="correct")))
    for name in ("char_count", "countdown", "arithmetic", "scramble"):
        assert "a correct answer pays 1; the other parts pay at most 0.1" in weigh(make_env(Env(type=name)))


def test_a_part_without_a_price_is_refused():
    from gnomon.config import Env
    from gnomon.run.find import make_env

    with pytest.raises(ConfigError, match="is paid but not declared"):
        weigh(make_env(Env(type=f"{WATCHED}:Undeclared")))


@pytest.mark.long
def test_a_bought_policy_rings_before_half_of_the_run(tmp_path):
    """The default recipe on a reward that pays for steps: within 20 steps every reply only writes steps."""
    ear, audit = Ear(), {"acknowledge": [RULE]}
    rollout, evaluation = {"max_tokens": 24}, {"every": 100, "tasks": 32}
    settings = {"threads": 1, "steps": 20, "optim": {"min_lr_ratio": 1.0}, "rollout": rollout, "eval": evaluation}
    with started(tmp_path / "r", STEPS, ear, audit=audit, **settings) as reader:
        rung = list(alarms(reader))
        noted = reader.events("alarm")
        last = reader.metrics()[-1]["metrics"]
    assert last["correct"] < 0.2 and last["part/steps"] / 12 >= 0.8
    assert {alarm.name for alarm in rung} >= {"correct.falls", "parts.jump"}
    assert [alarm.body() for alarm in rung] == [
        {k: event[k] for k in alarm.body()} for alarm, event in zip(rung, noted, strict=True)
    ]
    assert [text for text in ear.heard if text.startswith("ALARM")] == [str(alarm) for alarm in rung]


def test_a_sentinel_and_canaries_are_looked_after_live(tmp_path):
    ear = Ear()
    with started(tmp_path / "a", f"{WATCHED}:Canaries", ear, **SMALL) as reader:
        names = {event["name"] for event in reader.events("alarm")}
        assert next(reader.records("task")).body["canary"] is True
    assert {"canary.paid", "sentinel.disagrees"} <= names
    assert sum("canary.paid" in text for text in ear.heard) == 1


def test_alarms_leave_the_run_as_it_is(tmp_path, monkeypatch):
    """The same run with every alarm taken out has the same fingerprint; and one that is resumed notes none twice."""
    with started(tmp_path / "a", f"{WATCHED}:Strict", save={"every": 2}, **SMALL) as reader:
        loud, noted = reader.fingerprint, reader.events("alarm")
    assert noted
    import gnomon.monitoring.alarms as module

    with monkeypatch.context() as patch:
        patch.setattr(module, "ALARMS", {})
        with started(tmp_path / "b", f"{WATCHED}:Strict", save={"every": 2}, **SMALL) as reader:
            assert reader.fingerprint == loud and not reader.events("alarm")


@pytest.mark.parametrize("place", ["append:before-commit:6", "append:after-commit:7"])
def test_a_resumed_run_knows_what_has_rung(tmp_path, place):
    """Killed after an alarm and resumed, from before it and from after it; `gnomon alarms` finds the same ones."""
    words = ["threads=1", "steps=8", "prompts=4", "group=4", "max_tokens=32", "eval.tasks=4", "save.every=3"]
    words.append(f"audit.acknowledge={json.dumps(KNOWN['acknowledge'])}")
    run = tmp_path / "r"
    killed = command("train", f"{WATCHED}:Strict", f"run={run}", *words, env={"GNOMON_FAILPOINT": place})
    assert killed.returncode == -signal.SIGKILL
    done = command("resume", str(run))
    assert done.returncode == 0, done.stderr
    with RunReader(run) as reader:
        noted = [
            {k: event[k] for k in ("name", "step", "sentence", "read", "advice")} for event in reader.events("alarm")
        ]
    found = command("alarms", str(run), "--json")
    assert found.returncode == 1 and json.loads(found.stdout)["alarms"] == noted != []
    shown = command("show", str(run)).stdout
    assert all(f"{alarm['name']} at step {alarm['step']}" in shown for alarm in noted)
