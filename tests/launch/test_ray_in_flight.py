"""Samplers in a Ray cluster take over weights while they sample: every token is from the version that it names.

A reply is checked by sampling it again in this process, from its key and the stored weights of the versions that it
names, each from the place on where the record says that it began. Tokens and log-probabilities must be equal in every
bit. A version that is named wrongly, a token too early or too late, gives other bits.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import gnomon
from engines.asking import ask
from gnomon.config import RunConfig, Source, recorded, resolve
from gnomon.engines.base import Tier, sample_all
from gnomon.engines.decoder import Decoder
from gnomon.engines.remote import RemoteEngine
from gnomon.envs.char_count import CharCount
from gnomon.errors import ModelError
from gnomon.keys import Key
from gnomon.launch.cluster import fleet
from gnomon.launch.cluster.fleet import RayFleet
from gnomon.launch.cluster.own import OwnCluster
from gnomon.launch.makers import make_in_flight
from gnomon.launch.makers.policy import make_policy
from gnomon.launch.saved import saved_policy
from gnomon.learners.local import LocalLearner
from gnomon.models.folder import TINY, model_folder
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.models.weights import WeightsRef
from gnomon.rollout.actor import draws
from gnomon.store import RunReader
from gnomon.store.layout import RECIPE
from gnomon.types import Completion, Request
from launch.test_ray import Killer, actors, ended

STEPS = 6
FLOAT32 = Precision.only(torch.float32)


@pytest.fixture(scope="module")
def cluster() -> Iterator[OwnCluster]:
    """One cluster for all tests of this file, with which this process is connected."""
    import ray

    found = OwnCluster(4)
    fleet.refresh_token()
    ray.init(address=found.address, log_to_driver=False, configure_logging=False, logging_level="ERROR")
    yield found
    ray.shutdown()
    found.close()
    assert not actors()


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
    config, _ = resolve([recorded(run.folder / RECIPE)])
    policies, mixed = cache(lambda version: policy_of(run.folder, config, version // updates)), 0
    for step, metrics in enumerate(each["metrics"] for each in run.metrics()):
        key, ages = Key(config.seed).at("rollouts", step=step), []
        groups = [group for group in run.groups(step) if group.greedy is None]
        assert all(len(group.rollouts) == config.rollout.group for group in groups)
        for group, rollout in ((group, rollout) for group in groups for rollout in group.rollouts):
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
                    drawn = draws(key, group.index, sample)(players * number + rollout.player)
                    assert resampled(turn.prompt_ids, drawn, found, config, policies) == found
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
        ended = decoder.step()
    ((_, found),) = ended
    return replace(found, finish=like.finish, text=like.text)


def policy_of(folder: Path, config: RunConfig, step: int) -> Policy:
    return saved_policy(f"{folder}:{step}", FLOAT32) if step else make_policy(config, FLOAT32)


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
