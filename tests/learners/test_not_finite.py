"""A gradient that is not finite: nothing moves, and the error names the model, the step, the rollouts and the cause."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from gnomon.errors import NumericsError
from gnomon.learners import Batch
from gnomon.learners.critic import Critic
from gnomon.learners.local import LocalLearner
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.objectives import Denominators, Objective, Rollouts, objective
from learners.sequences import credited, made

NAN, INF = float("nan"), float("inf")
PPO = objective("ppo")


def batch() -> Batch:
    """Two groups of two short rollouts."""
    sequences = tuple(made([5, 9 + i // 2], [20 + i, 31], rollout=i, group=i // 2) for i in range(4))
    seen = Rollouts(rewards=torch.tensor([[1.0, 0], [0, 1]], dtype=torch.float64), lengths=torch.full((2, 2), 2))
    sizes = Denominators(groups=2, sequences=4, tokens=8, max_tokens=2, group_tokens=(4, 4))
    return Batch(sequences=sequences, rollouts=seen, denominators=sizes, temperature=1.0, exact=False)


def learner(dtype: torch.dtype = torch.float32) -> LocalLearner:
    precision = Precision(compute=dtype)
    critic = Critic(Policy.load("tiny", precision), lr=1e-3)
    return LocalLearner(Policy.load("tiny", precision), critic=critic)


def stepped(mind: LocalLearner, data: Batch, row: Objective = PPO) -> None:
    mind.forward_backward(credited(mind, data, row), row)
    mind.optim_step(1e-3)


def all_of(mind: LocalLearner) -> list[Tensor]:
    """Every weight of both models and everything that their optimisers remember."""
    assert mind.critic
    kept = [*mind.parameters.values(), *mind.policy.state().values(), *mind.critic.parameters.values()]
    for optimizer in (mind.optimizer, mind.critic.optimizer):
        kept += [value for state in optimizer.state.values() for value in state.values()]
    return [value.detach().clone() for value in kept]


def fails(mind: LocalLearner) -> str:
    with pytest.raises(NumericsError, match="E203") as caught:
        mind.optim_step(1e-3)
    return " ".join(str(caught.value).split())


@pytest.mark.parametrize("value", [NAN, INF])
@pytest.mark.parametrize("broken", [("policy",), ("critic",), ("policy", "critic")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_neither_model_moves_and_the_next_step_is_as_if_nothing_was(value, broken, dtype):
    mind, twin = learner(dtype), learner(dtype)
    for each in (mind, twin):
        stepped(each, batch())
    assert mind.critic
    before, version = all_of(mind), mind.version
    mind.forward_backward(credited(mind, batch(), PPO), PPO)
    models = {"policy": mind.parameters, "critic": mind.critic.parameters}
    for name in broken:
        grad = next(parameter.grad for parameter in models[name].values() if parameter.grad is not None)
        grad.view(-1)[0] = value
    said = fails(mind)
    assert all(("of the " + name in said) == (name in broken) for name in models)
    assert "optimiser step 2" in said
    assert ("optim.lr" in said) == ("policy" in broken) and ("critic.lr" in said) == ("critic" in broken)
    assert mind.version == version and all(map(torch.equal, all_of(mind), before))
    for each in (mind, twin):
        stepped(each, batch())
    assert all(map(torch.equal, all_of(mind), all_of(twin)))


def test_a_critic_alone_does_not_move_either():
    critic = Critic(Policy.load("tiny"), lr=1e-3)
    before = {name: value.detach().clone() for name, value in critic.parameters.items()}
    for parameter in critic.parameters.values():
        parameter.grad = torch.full_like(parameter, NAN)
    with pytest.raises(NumericsError, match=r"E203.*critic \(norm nan\)"):
        critic.optim_step()
    assert all(torch.equal(value, before[name]) for name, value in critic.parameters.items())
    assert all(parameter.grad is None for parameter in critic.parameters.values())


def with_rewards(value: float) -> Batch:
    data = batch()
    rewards = data.rollouts.rewards.clone()
    rewards[1, 0] = value
    return replace(data, rollouts=replace(data.rollouts, rewards=rewards))


@pytest.mark.parametrize("value", [NAN, INF, -INF])
@pytest.mark.parametrize("name", ["ppo", "rloo", "grpo"])
def test_a_reward_that_is_not_finite_is_named_with_its_rollout(value, name):
    mind, row = learner(), objective(name)
    mind.forward_backward(credited(mind, with_rewards(value), row), row)
    said = fails(mind)
    assert (
        "the rewards of these rollouts are not finite" in said
        and "trained rollouts 2, counted from 0" in said
        and "gnomon check" in said
    )
    assert "optim.lr" not in said and "critic.lr" not in said


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("behavior_logp", "the engine's log-probabilities are not finite"),
        ("reference_logp", "log-probabilities under the reference are not finite"),
        ("proximal_logp", "log-probabilities at the start of the step are not finite"),
        ("returns", "the critic's returns are not finite"),
        ("advantage", "the advantages of these rollouts are not finite"),
    ],
)
def test_what_a_batch_was_given_is_named_with_its_rollouts(field, words):
    """Every place where a number can come from, each alone."""
    mind = learner()
    ready = credited(mind, batch(), PPO)
    value = torch.zeros(8, dtype=torch.float64).index_fill(0, torch.tensor([2, 6]), INF)
    mind.forward_backward(reported(ready, value) if field == "behavior_logp" else replace(ready, **{field: value}), PPO)
    next(iter(mind.parameters.values())).grad.view(-1)[0] = NAN
    said = fails(mind)
    assert words in said and "trained rollouts 1, 3, counted" in said


def reported(data: Batch, logp: Tensor) -> Batch:
    """The batch with other log-probabilities of the sampler."""
    parts = zip(data.sequences, logp.split(2), strict=True)
    return replace(data, sequences=tuple(replace(sequence, behavior_logp=part) for sequence, part in parts))


def test_a_token_that_was_given_is_no_fault():
    mind = learner()
    ready = credited(mind, batch(), PPO)
    mind.forward_backward(reported(ready, torch.full((8,), NAN)), PPO)
    next(iter(mind.parameters.values())).grad.view(-1)[0] = NAN
    assert "engine" not in fails(mind)


@pytest.mark.parametrize("model", ["policy", "critic"])
def test_weights_that_are_not_finite_are_named(model):
    mind = learner()
    assert mind.critic
    state = mind.parameters if model == "policy" else mind.critic.parameters
    name = next(name for name in state if "norm" in name)
    with torch.no_grad():
        state[name].view(-1)[0] = NAN
    mind.forward_backward(credited(mind, batch(), PPO), PPO)
    assert f"weights of the {model} are not finite: {name}" in fails(mind)


def test_before_any_step_no_learning_rate_is_blamed():
    mind = learner()
    mind.forward_backward(credited(mind, batch(), PPO), PPO)
    next(iter(mind.parameters.values())).grad.view(-1)[0] = NAN
    said = fails(mind)
    assert "in this first step" in said and "lr" not in said.replace("norm", "")


def test_many_rollouts_are_counted():
    data = batch()
    rewards = torch.full((2, 8), NAN, dtype=torch.float64)
    sequences = tuple(replace(data.sequences[0], rollout=i, group=i // 8) for i in range(16))
    seen = Rollouts(rewards=rewards, lengths=torch.full((2, 8), 2))
    sizes = Denominators(groups=2, sequences=16, tokens=32, max_tokens=2, group_tokens=(16, 16))
    mind, row = learner(), objective("rloo")
    many = replace(data, sequences=sequences, rollouts=seen, denominators=sizes)
    mind.forward_backward(credited(mind, many, row), row)
    assert "trained rollouts 0, 1, 2, 3, 4, 5, 6, 7 and 8 more, counted" in fails(mind)


def overflows(mind: LocalLearner, data: Batch, row: Objective) -> str:
    mind.forward_backward(credited(mind, data, row), row)
    next(iter(mind.parameters.values())).grad.view(-1)[0] = INF
    return fails(mind)


@pytest.mark.parametrize(("name", "value", "words"), [("rloo", 1e18, "advantages"), ("ppo", -1e30, "advantages")])
def test_rewards_so_large_that_gradients_overflow_are_named(name, value, words):
    said = overflows(learner(), with_rewards(value), objective(name))
    assert f"the {words} of these rollouts exceed 1e+06" in said and "return rewards near 1" in said
    assert "trained rollouts" in said and "model pass" not in said and "optim.lr" not in said


def test_credit_that_overflows_of_rewards_that_do_not_is_mended_at_the_rewards():
    mind = learner()
    ready = credited(mind, with_rewards(1.7e308), objective("grpo"))
    mind.forward_backward(replace(ready, advantage=torch.full_like(ready.behavior_logp, INF)), objective("grpo"))
    said = fails(mind)
    assert "the advantages of these rollouts" in said and "return rewards near 1" in said and "rloo" not in said


@pytest.mark.parametrize(("dtype", "advised"), [(torch.float32, False), (torch.bfloat16, True)])
def test_a_precision_is_advised_only_where_it_is_another(dtype, advised):
    said = overflows(learner(dtype), batch(), PPO)
    assert ("policy.dtype=float32" in said) == advised and "another model folder" in said
