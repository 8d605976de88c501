"""Samplers in a Ray cluster take over weights while they sample: every token is from the version that it names.

A reply is checked by sampling it again in this process, from its key and the stored weights of the versions that it
names, each from the place on where the record says that it began. Tokens and log-probabilities must be equal in every
bit. A version that is named wrongly, a token too early or too late, gives other bits.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import gnomon
from engines.asking import ask, three_versions
from gnomon.config import RunConfig, Source, recorded_recipe, resolve
from gnomon.engines.base import Tier, sample_all
from gnomon.engines.decoder import Decoder
from gnomon.engines.remote import RemoteEngine
from gnomon.envs.char_count import CharCount
from gnomon.errors import ModelError
from gnomon.keys import Key
from gnomon.models.folder import TINY, model_folder
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.models.weights import WeightsRef
from gnomon.rollout.runner import reply_keys
from gnomon.run.makers import make_in_flight
from gnomon.run.makers.policy import make_policy
from gnomon.run.saved import saved_policy
from gnomon.store import RunReader, StepRecord
from gnomon.store.layout import RECIPE
from gnomon.types import Completion, Request
from gnomon_ray.fleet import RayFleet
from ray_cluster.actors import Killer, actors, ended

STEPS = 6
REPLIES = 4
"""No player of the games here replies so often."""
FLOAT32 = Precision.only(torch.float32)


def settings(lag: int, samplers: int, **more: Any) -> dict[str, Any]:
    """A few long replies per step, so that the next weights meet them. All checkpoints are kept."""
    rollout = {"prompts": 3, "group": 4, "temperature": 2.0, "max_tokens": 200, "lag": lag, "in_flight": True}
    return {
        "steps": STEPS,
        "eval": {"tasks": 2, "every": 4},
        "save": {"every": 1, "keep": 100},
        "optim": {"lr": 1e-3},
        "quiet": True,
        **more,
        "rollout": rollout | more.get("rollout", {}),
        "launch": {"type": "ray", "samplers": samplers, "episodes": 4, **more.get("launch", {})},
    }


def checked(run: RunReader, lag: int, updates: int = 1, players: int = 1, *, again: bool = True) -> int:
    """Check the versions of every token, and the metrics that count them.

    Args: players: that the policy plays; again: sample every reply again.
    Returns: how many replies have tokens of several versions.
    """
    config, _ = resolve([recorded_recipe(run.folder / RECIPE)])
    policies, mixed = cache(lambda version: policy_of(run.folder, config, version // updates)), 0
    for step, metrics in enumerate(each["metrics"] for each in run.metrics()):
        key, ages = Key(config.seed).at("rollouts", step=step), []
        groups = list(run.groups(step))
        assert all(len(group.rollouts) == config.rollout.group for group in groups)
        for index, rollout in [(group.index, rollout) for group in groups for rollout in group.rollouts]:
            sample = rollout.sample - rollout.player * config.rollout.group
            for number, turn in enumerate(rollout.turns):
                found = turn.completion
                places = [0, *(place for place, _ in found.changes)]
                versions = [found.version, *(version for _, version in found.changes)]
                assert versions == sorted(set(versions)) and places == sorted(set(places))
                assert updates * max(0, step - lag) <= versions[0] and versions[-1] <= updates * step
                ages += [updates * step - version for version in found.versions()]
                mixed += len(versions) > 1
                if again and found.token_ids:
                    # Of several players, the record does not say which reply of the episode it was.
                    turns = [number] if players == 1 else range(number, players * REPLIES)
                    keys = [reply_keys(key, index, sample)(turn) for turn in turns]
                    assert any(resampled(turn.prompt_ids, each, found, config, policies) == found for each in keys)
        if not ages:  # An opponent lost every hand before the policy had a move.
            assert "staleness" not in metrics
            continue
        assert metrics["staleness"] == pytest.approx(sum(ages) / len(ages))
        assert metrics["staleness_max"] == max(ages) <= lag * updates
    return mixed


def resampled(prompt: tuple[int, ...], key: Key, like: Completion, config: RunConfig, policies: Any) -> Completion:
    """A reply that is sampled alone, with the weights of `like` at each of its tokens."""
    sampling = ask(policies(like.version), "", 0, len(like.token_ids), temperature=config.rollout.temperature).sampling
    decoder, changes = Decoder(policies(like.version)), dict(like.changes)
    decoder.admit(Request(prompt_ids=prompt, key=key.bytes, sampling=replace(sampling, stop=())), like.version)
    for place in range(len(like.token_ids)):
        if place in changes:
            decoder.policy = policies(changes[place])
            decoder.renew(changes[place])
        for _, found in decoder.step():
            return replace(found, finish=like.finish, text=like.text)
    raise AssertionError("a reply as long as its limit ends")


def policy_of(folder: Path, config: RunConfig, step: int) -> Policy:
    return saved_policy(f"{folder}:{step}", FLOAT32) if step else make_policy(config, FLOAT32)


@pytest.mark.long
@pytest.mark.needs("ray")
def test_every_token_is_from_the_version_that_it_names_also_after_a_sampler_died(tmp_path, cluster):
    """Two samplers, of which one dies under way, and several turns."""
    killer, folder = Killer(step=1), tmp_path / "r"
    with gnomon.train("calculator", run=folder, **settings(2, 2, rollout={"turns": 2}), observers=[killer]) as run:
        assert checked(run, 2) > 0
        (loss,) = run.events("sampler_died")
        assert killer.killed and 0 < loss["episodes"] <= 4
        assert run.status == "finished" and run.manifest["tier"] == "measured" and "rollout.in_flight" in run.varies
    assert ended()


@pytest.mark.needs("ray")
@pytest.mark.long
@pytest.mark.parametrize(
    ("env", "more", "samplers", "players"),
    [
        ("char_count", {"policy": {"lora": {"rank": 2}}}, 1, 1),
        ("kuhn_poker", {"rollout": {"refill": 1}}, 2, 2),
        ("kuhn_poker", {"players": {"opponent": str(TINY)}, "policy": {"lora": {"rank": 2}}}, 2, 2),
        ("calculator", {"objective": "dapo", "optim": {"lr": 1e-3, "minibatches": 2, "epochs": 2}}, 1, 1),
    ],
    ids=["adapter", "two players", "opponent and adapter", "several updates and turns"],
)
def test_every_token_is_from_the_version_that_it_names(tmp_path, cluster, env, more, samplers, players):
    """One sampler and two × turns × players × updates × adapters."""
    with gnomon.train(env, run=tmp_path / "r", **settings(1, samplers, **more)) as run:
        assert checked(run, 1, 4 if "minibatches" in more.get("optim", {}) else 1, players) > 0
    assert ended()


@pytest.mark.needs("ray")
@pytest.mark.long
def test_a_learner_in_the_cluster_that_dies_repeats_its_versions(tmp_path, cluster):
    killer, folder = Killer("Trainer", step=2), tmp_path / "r"
    with gnomon.train("char_count", run=folder, learner="ray", **settings(1, 1), observers=[killer]) as run:
        assert killer.killed and len(list(run.events("learner_died"))) == 1
        checked(run, 1)  # The clock decides whether a reply has tokens of two versions.
    assert ended()


@pytest.mark.needs("ray")
@pytest.mark.long
def test_samplers_with_engines_in_environments_of_their_own_change_weights_in_flight(tmp_path, cluster):
    """The worker that stands in for vLLM, which draws by other keys: versions are checked, replies are not repeated."""
    python, worker = tmp_path / "python", Path(__file__).parents[1] / "engines" / "policy_worker.py"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {worker} "$2" "$3"\n')
    python.chmod(0o755)
    engine = {"engine": {"type": "vllm", "python": str(python)}}
    with gnomon.train("char_count", run=tmp_path / "r", **settings(1, 2, **engine)) as run:
        checked(run, 1, again=False)  # The clock decides whether a reply has tokens of two versions.
    assert ended()


class Interrupt(Killer):
    """An observer that stops the run after step 1, once episodes of step 2 have ended."""

    def __init__(self, folder: Path) -> None:
        super().__init__(step=-1, interrupt=1)
        self.next = folder / "unfinished/000002.jsonl"

    def step(self, record: StepRecord) -> None:
        while record.step == self.interrupt and not self.next.exists():
            time.sleep(0.01)
        super().step(record)


@pytest.mark.needs("ray")
@pytest.mark.parametrize("place", ["ray", "local"])
@pytest.mark.long
def test_a_resumed_run_reads_what_had_ended_and_goes_on_here_or_there(tmp_path, cluster, place):
    """The episodes of steps 2 and 3 that had ended are read; their tokens may be of versions before the checkpoint."""
    folder = tmp_path / "r"
    with gnomon.train("char_count", run=folder, **settings(2, 2), observers=[Interrupt(folder)]) as run:
        assert not run.complete and ended()
        before = [record.body for step in range(2) for record in run.records("rollout", step=step)]
    kept = sum(path.read_bytes().count(b"\n") for path in folder.glob("unfinished/*.jsonl"))
    with gnomon.resume(folder, quiet=True, launch=place) as run:
        assert [record.body for step in range(2) for record in run.records("rollout", step=step)] == before
        assert sum(event["episodes"] for event in run.events("continued")) == kept > 0
        assert run.complete and not run.attempts
        checked(run, 2)
    assert ended()


@pytest.fixture(scope="module")
def versions() -> list[WeightsRef]:
    return three_versions()


@pytest.mark.needs("ray")
def test_a_new_sampler_has_the_newest_weights_and_wrong_ones_end_the_run(cluster, versions):
    """A call that began before the load is not answered with the weights of that time by the next sampler."""
    rollout, launch = {"lag": 1, "in_flight": True}, {"type": "ray", "samplers": 1, "episodes": 4}
    config, _ = resolve([Source({"env": "char_count", "rollout": rollout, "launch": launch}, {})])
    policy, there = Policy.load(model_folder("tiny")), RayFleet(config, CharCount(), CharCount())
    engine = make_in_flight(RemoteEngine(there))
    assert isinstance(engine, RemoteEngine) and engine.tier is Tier.MEASURED

    async def scenario() -> None:
        requests = [ask(policy, "Use 3, 4, 5\n", sample, 160, stop=(), temperature=2.0) for sample in range(16)]
        engine.load(versions[0])
        first, loads = engine.weights, 0
        sampling = asyncio.ensure_future(sample_all(engine, requests))
        while not sampling.done():
            loads += 1
            engine.load(replace(versions[loads % 3], version=loads))
            await asyncio.sleep(0.05)
        found = await sampling
        assert any(completion.changes for completion in found)
        assert all(list(c.versions()) == sorted(c.versions()) and max(c.versions()) <= loads for c in found)
        engine.load(versions[0])
        assert engine.version == loads  # An older version is not loaded.
        os.kill(actors("Sampler")[0], signal.SIGKILL)
        answer = await there.call("sample", first, requests[0])
        assert answer.version == loads and len(there.losses()) == 1
        engine.load(replace(versions[1], version=loads + 1, base="another"))
        with pytest.raises(ModelError, match="E323"):
            await engine.sample(requests[0])

    try:
        asyncio.run(scenario())
    finally:
        there.close()
    assert ended()
