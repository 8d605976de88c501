"""Sampling ahead: the schedule follows from the recipe alone, whatever the clock does."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import gnomon
from gnomon.config import recorded_recipe, resolve
from gnomon.envs.char_count import CharCount
from gnomon.errors import ConfigErrors
from gnomon.models.weights import WeightsRef
from gnomon.rollout.actor import Actor
from gnomon.rollout.batches import InTurn, Order, staleness
from gnomon.rollout.opponents import Against
from gnomon.run.display import Silent
from gnomon.run.parts import open_parts
from gnomon.run.session import train_until_stopped
from gnomon.run.start import create
from gnomon.stats import Stats
from gnomon.store import RunReader
from gnomon.types import Group, Task

STEPS = 5
SMALL = {
    "steps": STEPS,
    "rollout": {"prompts": 4, "group": 4},
    "eval": {"tasks": 4, "every": 2},
    "save": {"every": 2},
    "optim": {"lr": 1e-3},
}


@dataclass(frozen=True, kw_only=True)
class Sleepy(CharCount):
    """Its verdicts come after random times, so episodes and batches end in another order in every run."""

    def check(self, task: Task, answer: str) -> bool:
        drawn = random.SystemRandom().random()
        time.sleep(0.3 if drawn < 0.01 else 0.004 * drawn)
        return super().check(task, answer)


def settings(lag: int, **more: object) -> dict[str, object]:
    rollout = {**SMALL["rollout"], "lag": lag}  # type: ignore[dict-item]
    return {**SMALL, "rollout": rollout, "quiet": True, **more}


def trained(folder: Path, lag: int, env: object = "char_count", **more: object) -> str:
    with gnomon.train(env, run=folder, **settings(lag, **more)) as run:
        return run.fingerprint


class Late(InTurn):
    """The same schedule without overlap: every batch is sampled when it is needed, with weights of `lag` steps ago."""

    exact = False

    def __init__(self, actor: Actor, lag: int) -> None:
        super().__init__(actor)
        self.lag, self.published = lag, list[WeightsRef]()
        self.ages: Stats = {}

    async def take(self, step: int, weights: WeightsRef, order: Order) -> list[Group]:
        self.published.append(weights.copy())
        (actor,) = self.actors
        as_of = max(0, step - self.lag)
        await actor.sync(self.published[as_of], as_of if isinstance(actor.speakers, Against) else step)
        groups = await super().take(step, weights, order)
        await actor.sync(weights, step)
        self.ages = staleness(groups, weights.version)
        return groups

    def counts(self) -> Stats:
        return self.ages


@pytest.mark.parametrize(
    ("lag", "more"),
    [
        (1, {}),
        (2, {"objective": "dapo", "optim": {"lr": 1e-3, "minibatches": 2, "epochs": 2}}),
        (2, {"policy": {"lora": {"rank": 2}}}),
        (9, {"env": {"type": "calculator"}, "objective": "tis"}),
        (1, {"env": {"type": "kuhn_poker"}, "rollout": {"prompts": 4, "group": 4, "lag": 1, "refill": 2}}),
        (2, {"env": {"type": "kuhn_poker"}, "players": {"opponent": "past", "every": 1, "keep": 2}}),
    ],
)
@pytest.mark.long
def test_overlap_gives_the_bytes_of_the_same_schedule_without_it(tmp_path, lag, more):
    """Rows × turns × players × updates × adapters × opponents; one lag is longer than the run."""
    env = more.get("env", {"type": "char_count"})["type"]
    overlapped = trained(tmp_path / "a", lag, env, **{k: v for k, v in more.items() if k != "env"})
    config, _ = resolve([recorded_recipe(tmp_path / "a" / "recipe.toml")])
    with open_parts(config) as made:
        parts = replace(made, batches=Late(made.actor, lag))
        with create(tmp_path / "b", config, parts) as store:
            train_until_stopped(store, config, parts, Silent(), ())
    assert RunReader(tmp_path / "b").fingerprint == overlapped


def test_a_rollout_says_how_old_its_weights_were(tmp_path):
    with gnomon.train("char_count", run=tmp_path / "r", **settings(2)) as run:
        versions = [{r.body["version"] for r in run.records("rollout", step=step)} for step in range(STEPS)]
        ages = [step["metrics"]["staleness"] for step in run.metrics()]
    assert versions == [{0}, {0}, {0}, {1}, {2}]
    assert ages == [0.0, 1.0, 2.0, 2.0, 2.0]


@pytest.mark.long
def test_neither_clock_nor_processes_decide(tmp_path, monkeypatch):
    """1, 2 and 4 processes whose verdicts end in random order. The audit is left out: its verdicts would sleep too."""
    monkeypatch.setattr("gnomon.run.start.audit_receipt", lambda *_: {})
    prints = [trained(tmp_path / str(n), 2, Sleepy(), steps=3, workers={"count": n}) for n in (1, 2, 4)]
    assert len(set(prints)) == 1


SCRIPT = """
import os, sys, gnomon
if __name__ == "__main__":
    folder = sys.argv[1]
    if os.path.exists(folder + "/journal.db"):
        gnomon.resume(folder).close()
    else:
        gnomon.train("char_count", run=folder, **SETTINGS).close()
"""


@pytest.mark.long
def test_killed_three_times_it_ends_the_same(tmp_path):
    """SIGKILL after each of the first checkpoints and before any, while batches are open."""
    whole = trained(tmp_path / "whole", 2)
    script = tmp_path / "go.py"
    script.write_text(SCRIPT.replace("SETTINGS", repr(settings(2))))
    folder = tmp_path / "killed"
    for ready in ("journal.db", "checkpoints/000002", "checkpoints/000004"):
        process = subprocess.Popen([sys.executable, str(script), str(folder)])
        while not (folder / ready).exists() and process.poll() is None:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert RunReader(folder).fingerprint != whole
    with gnomon.resume(folder, quiet=True) as run:
        assert run.fingerprint == whole


def test_what_cannot_be_had_ahead_is_refused(tmp_path):
    more = {"engine": {"type": "vllm", "python": sys.executable}}
    with pytest.raises(ConfigErrors, match="E046"):
        gnomon.train("char_count", run=tmp_path / "r", **settings(1, **more))
