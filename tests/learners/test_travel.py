"""The verbs of a learner can travel: driven by messages from another process it ends with the same bytes."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch

from gnomon.engines.embedded import Embedded
from gnomon.envs import CharCount
from gnomon.errors import ResourceError
from gnomon.keys import Key
from gnomon.learners import Batch
from gnomon.learners.base import Learner, Named
from gnomon.learners.coefficients import coefficients
from gnomon.learners.credit import Crediting
from gnomon.learners.local import LocalLearner
from gnomon.learners.verbs import carried_out
from gnomon.models.policy import Policy
from gnomon.objectives import Coefficients, objective
from gnomon.rollout import Actor, pack
from gnomon.stats import Stats
from gnomon.types import Sampling
from learners.far import Far, Plain, Process, built

SAMPLING = Sampling(max_tokens=16, stop=("</answer>",), temperature=0.8)
PLAIN = {"dtype": "float32", "critic": False, "reference": False, "entropy": 0.0}
CASES = {
    "dr_grpo": (Named(name="dr_grpo"), PLAIN),
    "an option": (Named(name="grpo", options={"clip_high": 0.5}), PLAIN),
    "whole sequences": (Named(name="gspo"), PLAIN),
    "pairs": (Named(name="online_dpo"), PLAIN | {"reference": True}),
    "successes": (Named(name="maxrl"), PLAIN),
    "a past": (Named(name="rae"), PLAIN),
    "a critic": (Named(name="ppo"), PLAIN | {"critic": True}),
    "a penalty": (Named(name="dr_grpo", penalty="k3", penalty_weight=0.1), PLAIN | {"reference": True}),
    "entropy, bfloat16": (Named(name="dr_grpo"), PLAIN | {"dtype": "bfloat16", "entropy": 0.01}),
}


@pytest.fixture(scope="module")
def batch() -> Batch:
    engine = Embedded(Policy.load("tiny"))
    actor = Actor(CharCount(), engine.policy.tokenizer, engine, group=4, sampling=SAMPLING)
    tasks = [(index, CharCount().tasks("train")[index]) for index in range(4)]
    groups = asyncio.run(actor.collect(tasks, Key(1).at("test")))
    actor.workers.close()
    found = pack(groups, sampling=SAMPLING, exact=True)
    rewards = (torch.arange(16).reshape(4, 4) * 7 % 5 < 2).double()  # Every group has both, whatever was said.
    return replace(found, rollouts=replace(found.rollouts, rewards=rewards))


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    found = Process()
    yield found
    found.close()


def step(learner: Learner, batch: Batch, named: Named, credit: Crediting) -> list[Stats]:
    """Two optimiser steps with one batch."""
    ready = credit(batch, learner, updates=2)
    found = []
    for part in ready.updates(1, 2, Key(0).at("updates")):
        found += [learner.forward_backward(part, named), learner.optim_step(1e-3)]
    return found


def values(stats: list[Stats]) -> list[dict[str, dict[str, float]]]:
    return [{name: asdict(stat) for name, stat in one.items()} for one in stats]


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_a_learner_in_another_process_ends_with_the_same_bytes(
    case: str, batch: Batch, process: Process, tmp_path: Path
):
    """Scores, statistics, published weights and checkpoints; and it goes on from the other one's checkpoint."""
    named, settings = CASES[case]
    batch = replace(batch, exact=settings["dtype"] == "float32")
    here = built(**settings, published=None)
    there = Far(process, {**settings, "published": str(tmp_path / "published")})
    credits = [Crediting(named.row()) for _ in range(2)]
    for name, learner, credit in zip(("here", "there"), (here, there), credits, strict=True):
        (tmp_path / name).mkdir()
        stats = values(step(learner, batch, named, credit))
        learner.save_state(tmp_path / name)
        if name == "here":
            wanted = stats
    assert stats == wanted and credits[0].state == credits[1].state
    for one, other in zip(here.score(batch.sequences, 0.8), there.score(batch.sequences, 0.8), strict=True):
        assert one.dtype == other.dtype and np.array_equal(one, other)
    files = sorted(path.name for path in (tmp_path / "here").iterdir())
    assert "optimizer.safetensors" in files and files == sorted(path.name for path in (tmp_path / "there").iterdir())
    for file in files:
        assert (tmp_path / "here" / file).read_bytes() == (tmp_path / "there" / file).read_bytes(), file
    own, theirs = here.publish(), there.publish()
    assert replace(own, tensors={}) == replace(theirs, tensors={}) and own.version == 2
    assert all(torch.equal(value, theirs.read()[name]) for name, value in own.read().items())
    if settings["dtype"] == "float32":
        engine = Embedded(Policy.load("tiny"))
        engine.load(theirs)  # Raises E201 if a probe says that it holds others.
        assert engine.version == 2
    again = Far(process, {**settings, "published": str(tmp_path / "again")})
    again.load_state(tmp_path / "here")
    later = replace(batch, exact=False)  # The policy has moved since it was sampled.
    assert values(step(here, later, named, credits[0])) == values(step(again, later, named, credits[1]))
    assert all(torch.equal(value, again.publish().read()[name]) for name, value in here.publish().read().items())


@pytest.mark.parametrize("name", ["dr_grpo", "gspo", "online_simpo", "maxrl"])
def test_coefficients_can_be_sent_instead_of_an_objective(name: str, batch: Batch, process: Process, tmp_path: Path):
    """κ in float32, computed where the log-probabilities of an exact sampler are known; the gradient is the same."""
    row = objective(name)
    here, there = LocalLearner(Policy.load("tiny")), Far(process, {**PLAIN, "published": str(tmp_path)})
    ready = Crediting(row)(batch, here)
    found = coefficients(ready, ready.behavior_logp.float(), row)
    assert found.kappa.dtype == torch.float32 and found.kappa.any()
    kappa = Coefficients(kappa=found.kappa, weight=found.weight.float(), clipped=found.clipped)
    stats = here.forward_backward(ready, row), there.forward_backward(ready, kappa)
    assert stats[0]["trained"] == stats[1]["trained"] and stats[1]["logp_mismatch"].value == 0.0
    norms = here.optim_step(1e-3)["grad_norm"].value, there.optim_step(1e-3)["grad_norm"].value
    assert norms[1] == pytest.approx(norms[0], rel=1e-5) and norms[0] > 0
    theirs = there.publish().read()
    assert all(torch.allclose(value, theirs[name], rtol=0, atol=2e-6) for name, value in here.publish().read().items())


@pytest.mark.parametrize("part", ["advantage", "ratio", "credit"])
def test_a_function_does_not_travel(part: str) -> None:
    """The other process takes names, numbers and arrays alone."""
    with pytest.raises(pickle.UnpicklingError, match="does not travel"):
        Plain(BytesIO(pickle.dumps(getattr(objective("dr_grpo"), part)))).load()


@pytest.fixture()
def small_disk(tmp_path: Path, monkeypatch) -> Iterator[Path]:
    """Temporary files go to a file system of 1 MB, too small for the files of the tiny policy."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root: " + mounted.stderr.decode().strip())
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("critic", [False, True])
@pytest.mark.parametrize("verb", ["save_state", "load_state"])
def test_a_full_disk_is_told_and_the_learner_goes_on(verb: str, critic: bool, small_disk: Path) -> None:
    """The error of the library that writes is one of Gnomon, and nothing is left on the disk."""
    learner = built(**(PLAIN | {"critic": critic}), published=None)
    files = {"model.safetensors": torch.zeros(2**21, dtype=torch.uint8)}
    with pytest.raises(ResourceError, match=r"(?s)E514.*the disk is full.*fix: free disk space there \(df -h "):
        carried_out(learner, verb, (files,) if verb == "load_state" else ())
    assert not list(small_disk.iterdir())
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    saved = carried_out(learner, "save_state", ())
    assert {"model.safetensors", "optimizer.safetensors"} <= saved.keys()
    carried_out(learner, "load_state", (saved,))
