"""Maximised textbook objectives of the rows that weigh outcomes, lengths or the whole step."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import torch
from objective_steps import Step
from torch import Tensor


def surrogate(step: Step, logp: Tensor, tokens: list[int], advantage: float, low: float, high: float) -> Tensor:
    """Σ over tokens of PPO's clipped surrogate."""
    old = torch.tensor([step.proximal[t] for t in tokens], dtype=logp.dtype)
    ratio = (logp[tokens] - old).exp()
    return torch.minimum(ratio * advantage, ratio.clamp(1 - low, 1 + high) * advantage).sum()


def _clipped(step: Step, logp: Tensor, low: float, high: float, credit: Callable[[int, int], float]) -> Tensor:
    """The mean over rollouts of the surrogate, from the credit of a rollout by its group and place."""
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        total = total + surrogate(step, logp, tokens, credit(g, i), low, high)
    return total / len(step.rollouts())


def _successes(step: Step, logp: Tensor, clip_low: float, clip_high: float) -> Tensor:
    return _clipped(step, logp, clip_low, clip_high, lambda g, i: 1.0 if step.rewards[g][i] == 1 else 0.0)


def _failures(step: Step, logp: Tensor, clip_low: float, clip_high: float) -> Tensor:
    return _clipped(step, logp, clip_low, clip_high, lambda g, i: -1.0 if step.rewards[g][i] == 0 else 0.0)


def w_reinforce_loss(
    step: Step, logp: Tensor, success: float, clip_low: float, clip_high: float, failure: float
) -> Tensor:
    """λ times the positive part and the negative part, apart."""
    positive = _successes(step, logp, clip_low, clip_high)
    return success * positive + failure * _failures(step, logp, clip_low, clip_high)


def raft_pp_loss(step: Step, logp: Tensor, clip_low: float, clip_high: float) -> Tensor:
    return _clipped(step, logp, clip_low, clip_high, lambda g, i: max(step.rewards[g][i], 0.0))


def reinforce_rej_loss(step: Step, logp: Tensor, failure: float, clip_low: float, clip_high: float) -> Tensor:
    def credit(g: int, i: int) -> float:
        if len(set(step.rewards[g])) == 1:
            return 0.0
        return 1.0 if step.rewards[g][i] == 1 else failure

    return _clipped(step, logp, clip_low, clip_high, credit)


def tilted_loss(step: Step, logp: Tensor, beta: float, clip_low: float, clip_high: float, baseline: str) -> Tensor:
    def credit(g: int, i: int) -> float:
        weights = [math.exp(beta * reward) for reward in step.rewards[g]]
        company = weights if baseline == "group" else weights[:i] + weights[i + 1 :]
        return (weights[i] / statistics.fmean(company) - 1) / beta

    return _clipped(step, logp, clip_low, clip_high, credit)


def _rewards_of_tokens(step: Step, g: int, without: int | None = None) -> list[float]:
    """The reward of every token of a group; one of each rollout where there is no token."""
    places = [i for i in range(len(step.rewards[g])) if i != without]
    found = [step.rewards[g][i] for i in places for _ in range(step.lengths[g][i])]
    return found or [step.rewards[g][i] for i in places]


def opo_loss(step: Step, logp: Tensor, baseline: str) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        mean = statistics.fmean(_rewards_of_tokens(step, g, without=i if baseline == "others" else None))
        total = total + (step.rewards[g][i] - mean) * logp[tokens].sum()
    return total / len(step.rollouts())


def _centred(step: Step, g: int, i: int) -> float:
    return step.rewards[g][i] - statistics.fmean(step.rewards[g])


def _deciding(step: Step) -> list[int]:
    return [g for g, group in enumerate(step.rewards) if len(set(group)) > 1]


def gpg_loss(step: Step, logp: Tensor) -> Tensor:
    """The mean over the rollouts of the groups that decide anything."""
    total, size = logp.new_zeros(()), len(step.rewards[0])
    for g, i, tokens in step.rollouts():
        if tokens and g in _deciding(step):
            total = total + _centred(step, g, i) * logp[tokens].mean() / (size * len(_deciding(step)))
    return total


def gpg_verl_loss(step: Step, logp: Tensor) -> Tensor:
    scores = [reward for group in step.rewards for reward in group]
    alpha = len(scores) / max(len([score for score in scores if score != 0]), 1)
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        total = total + alpha * _centred(step, g, i) * logp[tokens].sum()
    return total / max(len(step.logp), 1)


def lite_ppo_loss(step: Step, logp: Tensor, clip_low: float, clip_high: float, epsilon: float) -> Tensor:
    scores = [reward for group in step.rewards for reward in group]
    deviation = statistics.stdev(scores) + epsilon
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        advantage = _centred(step, g, i) / deviation if len(set(step.rewards[g])) > 1 else 0.0
        total = total + surrogate(step, logp, tokens, advantage, clip_low, clip_high)
    return total / max(len(step.logp), 1)


def magistral_loss(step: Step, logp: Tensor, clip_low: float, clip_high: float, epsilon: float) -> Tensor:
    """Groups of a single reward are left out first; then the mean of all advantages is taken off as well."""
    kept = _deciding(step)
    apart = [_centred(step, g, i) for g in kept for i in range(len(step.rewards[g]))]
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        if g in kept and tokens:
            advantage = (_centred(step, g, i) - statistics.fmean(apart)) / (statistics.pstdev(apart) + epsilon)
            each = surrogate(step, logp, tokens, advantage, clip_low, clip_high)
            total = total + each / sum(step.lengths[g]) / len(kept)
    return total
