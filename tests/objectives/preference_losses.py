"""Maximised textbook objectives of the rows that learn from pairs, as functions of log-probabilities [T]."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from objective_steps import Step
from torch import Tensor
from torch.nn.functional import logsigmoid

Score = Callable[[list[int]], Tensor]


def _paired(step: Step, logp: Tensor, score: Score, gain: Callable[[Tensor], Tensor]) -> Tensor:
    """The mean over groups of the mean gain of the pairs of a best and a worst rollout."""
    groups: list[list[list[int]]] = [[] for _ in step.rewards]
    for g, _, tokens in step.rollouts():
        groups[g].append(tokens)
    total = logp.new_zeros(())
    for rewards, rollouts in zip(step.rewards, groups, strict=True):
        better = [tokens for reward, tokens in zip(rewards, rollouts, strict=True) if reward == max(rewards)]
        worse = [tokens for reward, tokens in zip(rewards, rollouts, strict=True) if reward == min(rewards)]
        if max(rewards) > min(rewards):
            gains = [gain(score(winner) - score(loser)) for winner in better for loser in worse]
            total = total + torch.stack(gains).mean()
    return total / len(groups)


def _implicit(step: Step, logp: Tensor) -> Score:
    reference = torch.tensor(step.reference, dtype=logp.dtype)
    return lambda tokens: logp[tokens].sum() - reference[tokens].sum()


def online_dpo_loss(step: Step, logp: Tensor, beta: float) -> Tensor:
    return _paired(step, logp, _implicit(step, logp), lambda gap: logsigmoid(beta * gap))


def online_ipo_loss(step: Step, logp: Tensor, beta: float) -> Tensor:
    return _paired(step, logp, _implicit(step, logp), lambda gap: -((gap - 1 / (2 * beta)) ** 2))


def online_slic_loss(step: Step, logp: Tensor, beta: float) -> Tensor:
    return _paired(step, logp, _implicit(step, logp), lambda gap: -(1 - beta * gap).relu())


def online_simpo_loss(step: Step, logp: Tensor, beta: float, margin: float) -> Tensor:
    def score(tokens: list[int]) -> Tensor:
        return logp[tokens].mean() if tokens else logp.new_zeros(())

    return _paired(step, logp, score, lambda gap: logsigmoid(beta * gap - margin))


def xpo_loss(step: Step, logp: Tensor, beta: float, alpha: float) -> Tensor:
    """Online DPO less the weighted log-likelihood, averaged over the rollouts of a group that have tokens."""
    total = online_dpo_loss(step, logp, beta)
    for g, _, tokens in step.rollouts():
        there = sum(length > 0 for length in step.lengths[g])
        if tokens:
            weight = math.exp(sum(step.reference[t] - step.behavior[t] for t in tokens))
            total = total - alpha * weight * logp[tokens].sum() / there / len(step.rewards)
    return total
