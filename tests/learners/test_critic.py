"""The critic: it reads every token, learns by least squares, and goes on to the bit."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gnomon.engines.embedded import Embedded
from gnomon.envs import CharCount
from gnomon.keys import Key
from gnomon.learners import Batch
from gnomon.learners.base import Model
from gnomon.learners.credit import Crediting, values_beyond
from gnomon.learners.critic import Critic
from gnomon.learners.local import LocalLearner
from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.objectives import Need, Objective, Rollouts, objective
from gnomon.rollout import Actor, pack
from gnomon.types import Sampling
from learners.sequences import credited, lines

SAMPLING = Sampling(max_tokens=24, stop=("</answer>",))


def less_values(rollouts: Rollouts, advantage: object) -> torch.Tensor:
    """The reward less what the critic expected."""
    assert rollouts.values is not None
    return rollouts.spread(rollouts.rewards) - rollouts.values


ROW: Objective = replace(objective("reinforce"), credit=less_values, needs=frozenset({Need.VALUES}))


@pytest.fixture(scope="module")
def packed() -> Batch:
    engine = Embedded(Policy.load(model_folder("tiny")))
    actor = Actor(CharCount(), engine.policy.tokenizer, engine, group=4, sampling=SAMPLING)
    tasks = [(i, CharCount().tasks("train")[i]) for i in range(5)]
    return pack(asyncio.run(actor.collect(tasks, Key(1).at("test"))), sampling=SAMPLING, exact=True)


def learner(dtype: torch.dtype = torch.float32) -> LocalLearner:
    critic = Critic(Policy.load(model_folder("tiny"), Precision.only(dtype)), lr=1e-2)
    return LocalLearner(Policy.load(model_folder("tiny"), Precision.only(dtype)), critic=critic)


def test_a_new_critic_expects_nothing(packed):
    ready = credited(learner(), packed, ROW)
    rewards = packed.rollouts.rewards.flatten()[packed.rollout]
    assert torch.equal(ready.advantage, rewards) and torch.equal(ready.returns, rewards)


def test_its_gradient_is_that_of_half_the_mean_squared_error(packed):
    """float64, against plain autograd of the model as transformers runs it."""
    mind = learner(torch.float64)
    assert mind.critic
    with torch.no_grad():
        mind.critic.parameters["value.weight"].copy_(torch.linspace(-0.1, 0.1, 128, dtype=torch.float64))
    ready = credited(mind, replace(packed, exact=False), ROW)
    stats = mind.critic.forward_backward(ready, 200)
    policy = Policy.load(model_folder("tiny"), Precision.only(torch.float64))
    policy.model.set_attn_implementation("sdpa")
    weight = torch.linspace(-0.1, 0.1, 128, dtype=torch.float64).requires_grad_()
    error = 0.0
    for line in lines(packed):
        ids = torch.tensor([line.prompt + line.reply])
        hidden = policy.model.base_model(input_ids=ids).last_hidden_state[0, len(line.prompt) - 1 : -1]
        reward = float(packed.rollouts.rewards.flatten()[line.rollout])
        loss = (hidden @ weight - reward).square().sum() / (2 * len(packed))
        loss.backward()
        error += 2 * float(loss.detach())
    assert stats["value_error"].value == pytest.approx(error, rel=1e-10)
    found = mind.critic.parameters
    assert weight.grad is not None and found["value.weight"].grad is not None
    assert (found["value.weight"].grad - weight.grad).abs().max() <= 1e-11 * weight.grad.abs().max()
    for name, value in policy.state().items():
        if value.grad is not None:
            assert (found[name].grad - value.grad).abs().max() <= 1e-11 * weight.grad.abs().max()


def test_the_gradient_of_a_clipped_loss_is_that_of_the_textbook(packed):
    """Token by token, of a critic that has moved: some values beyond the band on either side, some inside."""
    mind, clip = learner(torch.float64), 0.05
    assert mind.critic
    ready = credited(mind, replace(packed, exact=False), ROW)
    moved = torch.linspace(-0.1, 0.1, 128, dtype=torch.float64)
    with torch.no_grad():
        mind.critic.parameters["value.weight"].copy_(moved)
    values = mind.critic.values(ready.sequences)
    mind.critic.forward_backward(ready, 200, clip=clip)
    found = mind.critic.parameters["value.bias"].grad
    slopes, kinds = 0.0, set()
    for value, before, wanted in zip(values.tolist(), ready.values.tolist(), ready.returns.tolist(), strict=True):
        one = torch.tensor(value, dtype=torch.float64, requires_grad=True)
        held = torch.clamp(one, before - clip, before + clip)
        (max((one - wanted) ** 2, (held - wanted) ** 2, key=lambda square: square.item()) / 2).backward()
        slopes += float(one.grad)
        kinds.add((value > before + clip, value < before - clip, float(one.grad) == 0))
    assert found.item() == pytest.approx(slopes / len(ready), rel=1e-10)
    assert {(True, False, True), (True, False, False), (False, True, False), (False, False, False)} <= kinds
    plain = learner(torch.float64)
    with torch.no_grad():
        plain.critic.parameters["value.weight"].copy_(moved)
    plain.critic.forward_backward(ready, 200)
    assert plain.critic.parameters["value.bias"].grad.item() != pytest.approx(found.item(), rel=1e-3)


@pytest.mark.parametrize("name", ["ppo", "vc_ppo", "vapo"])
def test_the_first_batches_can_teach_the_critic_alone(packed, name):
    mind, credits = learner(), Crediting(objective(name, value_steps=2))
    begin = {key: value.clone() for key, value in mind.policy.state().items()}
    for step in range(3):
        read = mind.critic.parameters["value.weight"].clone()
        ready = credits(packed, mind)
        mind.forward_backward(ready, credits.objective)
        mind.optim_step(1e-3)
        assert not torch.equal(mind.critic.parameters["value.weight"], read)
        still = all(torch.equal(value, begin[key]) for key, value in mind.policy.state().items())
        assert still == (step < 2) and credits.state.steps == min(step + 1, 2)


def test_a_value_after_the_last_token_is_that_before_the_next(packed):
    """Of rollouts that lost their last token the value after them is the one before that token; others have none."""
    mind = learner()
    with torch.no_grad():
        mind.critic.parameters["value.weight"].copy_(torch.linspace(-0.1, 0.1, 128))
    whole = dict(
        zip((s.rollout for s in packed.sequences), mind.score(packed.sequences, 1.0, Model.CRITIC), strict=True)
    )
    shorter = tuple(
        replace(s, token_ids=s.token_ids[:-1], trainable=s.trainable[:-1], behavior_logp=s.behavior_logp[:-1])
        for s in packed.sequences
    )
    ended = torch.arange(20).reshape(5, 4) % 3
    batch = replace(packed, sequences=shorter, rollouts=replace(packed.rollouts, ended=ended))
    found = values_beyond(batch, mind)
    for rollout, cause in enumerate(ended.flatten().tolist()):
        assert found.flatten()[rollout] == (float(whole[rollout][-1]) if cause else 0.0)


def test_a_batch_without_tokens_has_no_error(packed):
    """So no metric of its step is undefined: a player may lose before it is asked anything."""
    mind = learner()
    assert mind.critic
    assert mind.critic.forward_backward(credited(mind, packed, ROW).take([]), 200) == {}


def test_it_learns_what_rollouts_earn_and_leaves_the_policy_alone(packed):
    mind = learner()
    assert mind.critic
    before = {name: value.clone() for name, value in mind.policy.state().items()}
    errors = []
    for _ in range(12):
        stats = mind.critic.forward_backward(credited(mind, packed, ROW), 3072)
        errors.append(stats["value_error"].value)
        mind.critic.optim_step()
    assert errors[-1] < errors[0] / 2
    assert all(torch.equal(value, before[name]) for name, value in mind.policy.state().items())


def test_saved_and_loaded_it_goes_on_to_the_bit(packed, tmp_path: Path):
    def step(mind: LocalLearner) -> None:
        mind.forward_backward(credited(mind, replace(packed, exact=False), ROW), ROW)
        mind.optim_step(1e-3)

    straight = learner()
    step(straight)
    straight.save_state(tmp_path)
    again = learner()
    again.load_state(tmp_path)
    for mind in (straight, again):
        step(mind)
    assert straight.critic and again.critic
    for name, value in straight.critic.parameters.items():
        assert torch.equal(value, again.critic.parameters[name]), name
    assert float(straight.critic.parameters["value.weight"].detach().abs().max()) > 0
