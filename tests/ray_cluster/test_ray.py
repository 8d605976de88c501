"""Samplers and a learner in a Ray cluster: the same bytes as in one process, whatever dies.

`benchmarks/ray_kills.py` has more: it kills any process at random moments, the run's own too, and tries two nodes.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import gnomon
from gnomon.config import Source, resolve
from gnomon.envs.char_count import CharCount
from gnomon.errors import ConfigErrors, ResourceError
from gnomon.models.folder import TINY
from gnomon_ray import fleet, own
from gnomon_ray.own import OwnCluster
from ray_cluster.actors import Killer, ended

TEAM = Path(__file__).parents[1] / "endpoint/team_env.py"
SMALL = {"steps": 3, "prompts": 4, "group": 4, "eval": {"tasks": 4, "every": 2}, "save": {"every": 1}, "quiet": True}


def trained(folder: Path, env: Any, **settings: Any) -> str:
    with gnomon.train(env, run=folder, **{**SMALL, **settings}) as run:
        return run.fingerprint


def ray_of(samplers: int, **more: Any) -> dict[str, Any]:
    return {"type": "ray", "samplers": samplers, "episodes": 4, **more}


@pytest.mark.needs("ray")
def test_a_killed_sampler_changes_no_byte(tmp_path, cluster):
    """Several turns, and batches that are sampled ahead. The dead sampler is noted, and none is left."""
    more = {"rollout": {"lag": 1, "turns": 2}}
    local, killer = trained(tmp_path / "local", "calculator", **more), Killer()
    folder = tmp_path / "ray"
    assert trained(folder, "calculator", **more, launch=ray_of(2), observers=[killer]) == local
    with gnomon.store.RunReader(folder) as run:
        (loss,) = run.events("sampler_died")
    assert killer.killed and loss["episodes"] <= 4
    assert ended()


@pytest.mark.needs("ray")
@pytest.mark.long
@pytest.mark.parametrize(
    ("env", "more", "number"),
    [
        ("kuhn_poker", {"policy": {"lora": {"rank": 2}}}, 4),
        ("char_count", {"objective": "fcp", "rollout": {"offline": 0.3}}, 1),
        ("kuhn_poker", {"players": {"opponent": "past", "every": 1, "keep": 2}, "rollout": {"lag": 1}}, 2),
        ("kuhn_poker", {"players": {"opponent": str(TINY)}}, 2),
        pytest.param(
            f"{TEAM}:Hurried",
            {"steps": 1, "audit": {"acknowledge": ["exploit.empty_slot"]}},
            2,
            marks=pytest.mark.needs("bwrap"),
        ),
    ],
)
def test_any_number_of_samplers_gives_the_bytes_of_one_process(tmp_path, cluster, env, more, number):
    """Players × adapter; prefaces and weights that are loaded again; opponents, with a lag and without; programs, with
    calls that are refused."""
    local = trained(tmp_path / "local", env, **more)
    assert trained(tmp_path / "ray", env, **more, launch=ray_of(number)) == local


@pytest.mark.needs("ray")
@pytest.mark.long
def test_one_recipe_with_a_lag_of_two_has_one_fingerprint(tmp_path, cluster):
    """Without a cluster, with 1 and 4 samplers, and with 2 of which one is killed in each of two steps."""
    more = {"rollout": {"lag": 2}, "steps": 6}
    wanted = trained(tmp_path / "local", "char_count", **more)
    for number in (1, 4):
        assert trained(tmp_path / str(number), "char_count", **more, launch=ray_of(number)) == wanted
    killers = [Killer(step=1), Killer(step=3)]
    assert trained(tmp_path / "killed", "char_count", **more, launch=ray_of(2), observers=killers) == wanted
    with gnomon.store.RunReader(tmp_path / "killed") as run:
        assert len(list(run.events("sampler_died"))) == 2
        assert [step["metrics"]["staleness"] for step in run.metrics()] == [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    assert ended()


@pytest.mark.long
@pytest.mark.needs("ray")
@pytest.mark.parametrize(
    ("keep", "save", "steps"), [(1, 100, 0), (2, 100, 1), (100, 1, 1), (100, 100, 3)], ids=lambda each: str(each)
)
def test_a_killed_learner_changes_no_byte(tmp_path, cluster, keep, save, steps):
    """After the third step. The new process loads the last kept state, if there is one, and repeats the calls after it.

    Args: keep: `launch.state_every`; save: `save.every`, since a checkpoint is kept too; steps: that are repeated.
    """
    more = {"rollout": {"lag": 1}, "optim": {"minibatches": 2}, "save": {"every": save}, "steps": 4}
    local, killer = trained(tmp_path / "local", "calculator", **more), Killer("Trainer", step=2)
    place = {"learner": "ray", "launch": ray_of(1, state_every=keep)}
    assert trained(tmp_path / "ray", "calculator", **more, **place, observers=[killer]) == local
    with gnomon.store.RunReader(tmp_path / "ray") as run:
        (loss,) = run.events("learner_died")
    # Each of the two updates of a step is a gradient and an optimiser step. A step is observed before it is saved.
    assert killer.killed and loss["calls"] == 4 * steps
    assert ended()


@pytest.mark.needs("ray")
@pytest.mark.long
@pytest.mark.parametrize(
    "more",
    [
        {"objective": "ppo"},
        {"policy": {"lora": {"rank": 2}}, "objective": "grpo", "regularize": {"kl": 0.01}},
        {"ranks": 2, "optim": {"type": "sgd", "lr": 0.3, "momentum": 0.9}},
    ],
    ids=["critic", "adapter and reference", "ranks and SGD"],
)
def test_a_learner_in_the_cluster_gives_the_bytes_of_one_in_the_process(tmp_path, cluster, more):
    """It may die between two steps, and a run that was interrupted goes on with it."""
    folder, local = tmp_path / "ray", trained(tmp_path / "local", "char_count", **more)
    place = {"learner": "ray", "launch": ray_of(1)}
    killer = Killer("Trainer", step=0, interrupt=1)
    with gnomon.train("char_count", run=folder, **SMALL, **more, **place, observers=[killer]) as run:
        assert killer.killed and ended() and not run.complete
    with gnomon.resume(folder, quiet=True) as run:
        assert run.fingerprint == local
    assert ended()


@pytest.mark.needs("ray")
def test_no_room_for_the_learner_is_an_error(tmp_path, cluster):
    launch = ray_of(1, learner={"nowhere": 1.0}, seconds=0.5)
    with pytest.raises(ResourceError, match=r"(?s)E511.*no room for the learner.*nowhere 1.*have CPU 4"):
        trained(tmp_path / "r", "char_count", learner="ray", launch=launch)
    assert ended()


@pytest.mark.needs("ray")
@pytest.mark.long
def test_samplers_have_engines_in_environments_of_their_own(tmp_path, cluster):
    """The worker that stands in for vLLM computes the bits of the policy, so the rollouts are those of one process. It
    dies once, in the run with samplers."""
    python, plan = tmp_path / "python", tmp_path / "plan"
    worker = Path(__file__).parents[1] / "engines" / "policy_worker.py"
    python.write_text(f'#!/bin/sh\nGNOMON_TEST_PLAN={plan} exec {sys.executable} {worker} "$2" "$3"\n')
    python.chmod(0o755)
    engine = {"engine": {"type": "vllm", "python": str(python)}}
    trained(tmp_path / "local", "calculator", **engine)
    plan.write_text("die 20")
    trained(tmp_path / "ray", "calculator", **engine, launch=ray_of(2))
    with gnomon.store.RunReader(tmp_path / "local") as local, gnomon.store.RunReader(tmp_path / "ray") as run:
        for step in range(SMALL["steps"]):
            assert list(run.groups(step)) == list(local.groups(step))
        assert sum(step["metrics"]["engine/restarts"] for step in run.metrics()) == 1
        assert run.manifest["engine"]["vllm"] == "0.32.0"
    assert ended()


@pytest.mark.needs("ray")
def test_no_room_is_an_error(tmp_path, cluster):
    with pytest.raises(ResourceError, match=r"(?s)E511.*nowhere 1.*all nodes together have CPU 4"):
        trained(tmp_path / "r", "char_count", launch=ray_of(1, resources={"nowhere": 1.0}, seconds=0.5))


@pytest.mark.needs("ray")
def test_memory_can_be_reserved_too(tmp_path, cluster):
    launch = ray_of(1, resources={"memory": 1e12}, seconds=0.5)
    with pytest.raises(ResourceError, match=r"(?s)E511.*memory 1e\+12"):
        trained(tmp_path / "none", "char_count", launch=launch)
    trained(tmp_path / "some", "char_count", launch=ray_of(1, resources={"memory": 1e6}), steps=1)


@pytest.mark.parametrize(
    ("key", "value"),
    [("cpus", 1e-5), ("gpus", 1.5), ("learner", {"GPU": 2.5}), ("resources", {"object_store_memory": 1.0})],
)
def test_what_ray_cannot_reserve_is_an_error_at_once(key, value):
    with pytest.raises(ConfigErrors, match=rf"E011.*launch\.{key}"):
        resolve([Source({"env": "char_count", "launch": {"type": "ray", key: value}}, {})])


@pytest.mark.needs("ray")
def test_a_death_that_ends_a_run_is_recorded(tmp_path, cluster):
    with pytest.raises(ResourceError, match="E512"):
        trained(tmp_path / "r", "char_count", launch=ray_of(1, restarts=0), observers=[Killer(step=0)])
    with gnomon.store.RunReader(tmp_path / "r") as run:
        (loss,) = run.events("sampler_died")
    assert loss["step"] == 1


@dataclass(frozen=True)
class Deadly(CharCount):
    """Ends a sampler that receives it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return received, ()


def received() -> Deadly:
    if "ray" in sys.modules:
        os._exit(1)
    return Deadly()


@pytest.mark.needs("ray")
def test_a_sampler_that_always_dies_is_an_error(tmp_path, cluster):
    with pytest.raises(ResourceError, match=r"(?s)E512.*no sampler stays alive"):
        trained(tmp_path / "r", Deadly(), launch=ray_of(1, restarts=0))


@pytest.mark.needs("ray")
@pytest.mark.parametrize("address", ["127.0.0.1:9", "nonsense"])
def test_an_address_without_a_cluster_is_an_error(monkeypatch, address):
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    config, _ = resolve([Source({"env": "char_count", "launch": {"type": "ray", "address": address}}, {})])
    with pytest.raises(ResourceError, match=f"E510.*{address} cannot be reached"), ExitStack() as undo:
        fleet.connect(config, undo)


@pytest.mark.needs("ray")
def test_a_process_without_the_token_of_a_cluster_is_an_error(monkeypatch):
    """What Ray raises where it looks for a token and finds none."""
    import ray
    from ray.exceptions import AuthenticationError

    def refused(**settings: Any) -> None:
        raise AuthenticationError("there is no token. More of it.")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", refused)
    config, _ = resolve([Source({"env": "char_count", "launch": {"type": "ray", "address": "auto"}}, {})])
    wanted = "(?s)E510.*auto refuses this process.*there is no token\n.*RAY_AUTH_TOKEN"
    with pytest.raises(ResourceError, match=wanted), ExitStack() as undo:
        fleet.connect(config, undo)


@pytest.mark.needs("ray")
def test_a_cluster_of_its_own_starts_where_another_one_is_named(monkeypatch):
    """As in the jobs of a Ray cluster."""
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    OwnCluster(1).close()


@pytest.mark.needs("ray")
def test_a_cluster_starts_where_the_usual_folder_has_a_long_path_or_says_why_not(tmp_path, monkeypatch):
    monkeypatch.setattr(own.tempfile, "tempdir", str(tmp_path))
    OwnCluster(1).close()
    monkeypatch.setattr(own, "LONGEST", 200)
    with pytest.raises(ResourceError, match=r"(?s)E510.*could not start.*AF_UNIX path length"):
        OwnCluster(1)
    assert not list(tmp_path.iterdir())


def test_without_ray_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(fleet, "find_spec", lambda _: None)
    with pytest.raises(ResourceError, match=r"(?s)E505.*pip install 'gnomon\[ray\]'"):
        fleet.require_ray()


VLLM = {"type": "vllm", "python": "p"}


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"engine": VLLM, "rollout": {"lag": 1}}, "E046"),
    ],
)
def test_what_samplers_cannot_do_is_refused(more, code):
    with pytest.raises(ConfigErrors, match=code):
        resolve([Source({"env": "kuhn_poker", "launch": "ray", **more}, {})])


def test_a_learner_in_a_cluster_needs_the_cluster():
    with pytest.raises(ConfigErrors, match=r"(?s)E049.*launch.type=ray, or learner=local"):
        resolve([Source({"env": "char_count", "learner": "ray"}, {})])
