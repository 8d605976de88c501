"""Several turns through the shipped policy: a split changes no gradient, and only what needs a further pass has one."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch

from gnomon.engines.embedded import Embedded
from gnomon.envs import GuessNumber
from gnomon.envs.workers import EnvWorkers
from gnomon.keys import Key
from gnomon.learners import Batch
from gnomon.learners.coefficients import cut
from gnomon.learners.local import LocalLearner
from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.objectives import Reach, Tokens, objective
from gnomon.rollout import Actor, Limits, pack
from gnomon.types import Sampling
from learners.sequences import credited

SAMPLING = Sampling(max_tokens=24, stop=("</answer>",))


@pytest.fixture(scope="module")
def batch() -> Batch:
    """Sampled in float32 by an exact engine, with rewards that differ in every group."""
    engine, workers = Embedded(Policy.load(model_folder("tiny"))), EnvWorkers(GuessNumber(), workers=1)
    actor = Actor(
        GuessNumber(),
        engine.policy.tokenizer,
        engine,
        group=3,
        sampling=SAMPLING,
        workers=workers,
        limits=Limits(turns=3),
    )
    tasks = [(index, GuessNumber().tasks("train")[index]) for index in range(2)]
    groups = asyncio.run(actor.collect(tasks, Key(1).at("test")))
    workers.close()
    assert max(len(rollout.turns) for group in groups for rollout in group.rollouts) == 3
    found = pack(groups, sampling=SAMPLING, exact=True)
    rewards = torch.tensor([[1.0, 0, 0], [0, 1, 1]], dtype=torch.float64)
    return replace(found, rollouts=replace(found.rollouts, rewards=rewards))


def learner(dtype: torch.dtype = torch.float32) -> LocalLearner:
    return LocalLearner(Policy.load(model_folder("tiny"), Precision.only(dtype)))


def gradient(mind: LocalLearner, batch: Batch, name: str) -> torch.Tensor:
    for value in mind.parameters.values():
        value.grad = None
    mind.forward_backward(batch, objective(name))
    return torch.cat([value.grad.flatten() for value in mind.parameters.values()])


def split_groups(mind: LocalLearner, batch: Batch) -> None:
    """Micro-batches that hold groups in pieces."""
    mind.micro_batch = 1
    pieces = [batch.take(places) for places in batch.micro_batches(mind.micro_batch)]
    assert len(pieces) > 2 and cut(pieces, Reach.GROUP)


@pytest.mark.parametrize("name", ["grpo", "gspo", "online_simpo"])
def test_the_gradient_of_several_turns_is_the_same_for_any_split(batch, name, monkeypatch):
    """float64, with a sampler somewhat apart from the policy."""
    mind = learner(torch.float64)
    mind.micro_batch = 10**6
    near = [torch.from_numpy(logp) for logp in mind.score(batch.sequences)]
    apart = tuple(
        replace(sequence, behavior_logp=logp + 0.1 * ((torch.arange(len(logp)) + place) % 3 - 1))
        for place, (sequence, logp) in enumerate(zip(batch.sequences, near, strict=True))
    )
    ready = credited(mind, replace(batch, exact=False, sequences=apart), objective(name))
    whole = gradient(mind, ready, name)
    split_groups(mind, ready)
    assert whole.abs().max() > 1e-5
    assert (gradient(mind, ready, name) - whole).abs().max() <= 1e-11 * whole.abs().max()


def passed(mind: LocalLearner, batch: Batch, name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, torch.Tensor]:
    """Tokens that pass through the model, and the gradient."""
    counted, hidden = [], Policy.hidden
    monkeypatch.setattr(Policy, "hidden", lambda self, ids, to: counted.append(len(ids)) or hidden(self, ids, to))
    found = gradient(mind, batch, name)
    monkeypatch.setattr(Policy, "hidden", hidden)
    return sum(counted), found


def test_coefficients_that_need_more_than_a_micro_batch_cost_a_pass_unless_the_sampler_is_exact(batch, monkeypatch):
    """And what they are does not depend on it: up to the rounding of float32."""
    mind = learner()
    split_groups(mind, batch)
    ready = {name: credited(mind, batch, objective(name)) for name in ("dr_grpo", "online_simpo")}
    once, _ = passed(mind, ready["dr_grpo"], "dr_grpo", monkeypatch)
    reported, found = passed(mind, ready["online_simpo"], "online_simpo", monkeypatch)
    looked, again = passed(mind, replace(ready["online_simpo"], exact=False), "online_simpo", monkeypatch)
    assert reported == once and looked == 2 * once
    assert (found - again).abs().max() <= 1e-5 * found.abs().max()
    mind.micro_batch = 10**6
    alone, whole = passed(mind, replace(ready["online_simpo"], exact=False), "online_simpo", monkeypatch)
    assert alone <= once and (found - whole).abs().max() <= 1e-5 * whole.abs().max()


def test_every_update_is_weighed_by_the_policy_as_it_is(batch, monkeypatch):
    """The second update's ratios are those of plain log-probabilities, taken after the first."""
    mind, seen = learner(torch.float64), []

    def spy(tokens: Tokens) -> torch.Tensor:
        seen.append(tokens)
        return torch.ones_like(tokens.logp)

    row = replace(objective("gspo"), ratio=spy)
    assert row.reach is Reach.STEP
    split_groups(mind, batch)
    ready = credited(mind, replace(batch, exact=False), row, updates=2)
    for _ in range(2):
        mind.forward_backward(ready, row)
        now = torch.from_numpy(np.concatenate(mind.score(ready.sequences)))
        tokens = seen[-1]
        assert len(tokens) == batch.denominators.tokens
        assert torch.allclose(tokens.logp.sort().values, now.sort().values, rtol=0, atol=1e-12)
        mind.optim_step(1e-3)
    assert tokens.log_ratio.abs().max() > 1e-4
