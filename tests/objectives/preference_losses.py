"""Maximised textbook objectives of the rows that learn from pairs, as functions of log-probabilities [T]."""

from __future__ import annotations

import math
import statistics
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


def online_dpo_loss(step: Step, logp: Tensor, beta: float, loss: str = "logistic") -> Tensor:
    of_gap = {
        "logistic": lambda gap: logsigmoid(beta * gap),
        "squared": lambda gap: -((gap - 1 / (2 * beta)) ** 2),
        "hinge": lambda gap: -(1 - beta * gap).relu(),
    }
    return _paired(step, logp, _implicit(step, logp), of_gap[loss])


def online_simpo_loss(step: Step, logp: Tensor, beta: float, margin: float) -> Tensor:
    def score(tokens: list[int]) -> Tensor:
        return logp[tokens].mean() if tokens else logp.new_zeros(())

    return _paired(step, logp, score, lambda gap: logsigmoid(beta * gap - margin))


def tpo_loss(step: Step, logp: Tensor, temperature: float) -> Tensor:
    """Less the cross-entropy of the shares of a group to their target, which stands still."""
    proximal, total = torch.tensor(step.proximal, dtype=logp.dtype), logp.new_zeros(())
    for g, rewards in enumerate(step.rewards):
        rows = [(i, tokens) for at, i, tokens in step.rollouts() if at == g and tokens]
        if rows:
            spread = statistics.pstdev(rewards) if len(set(rewards)) > 1 else math.inf
            tilt = [(rewards[i] - statistics.fmean(rewards)) / spread / temperature for i, _ in rows]
            before = torch.stack([proximal[tokens].sum() for _, tokens in rows])
            target = (before.log_softmax(0) + torch.tensor(tilt, dtype=logp.dtype)).softmax(0)
            total = total + target @ torch.stack([logp[tokens].sum() for _, tokens in rows]).log_softmax(0)
    return total / len(step.rewards)


def online_cpo_loss(step: Step, logp: Tensor, beta: float, alpha: float) -> Tensor:
    """The likelihood of the best is that of each pair's winner."""

    def score(tokens: list[int]) -> Tensor:
        return logp[tokens].sum()

    contrast = _paired(step, logp, score, lambda gap: logsigmoid(beta * gap))
    return contrast + alpha * _of_best(step, logp, score)


def online_orpo_loss(step: Step, logp: Tensor, weight: float, likelihood: str) -> Tensor:
    """P held below one, with the slope that it has there."""

    def mean(tokens: list[int]) -> Tensor:
        return logp[tokens].mean()

    def log_odds(tokens: list[int]) -> Tensor:
        if not tokens:
            return logp.new_zeros(())
        value = mean(tokens)
        value = value.clamp(max=-1e-6).detach() + (value - value.detach())
        return value - torch.log(-torch.expm1(value))

    contrast = _paired(step, logp, log_odds, lambda gap: weight * logsigmoid(gap))
    if likelihood == "token":
        count = float(_of_best(step, logp, lambda tokens: logp.new_tensor(float(len(tokens)))))
        pairs = float(_of_best(step, logp, lambda tokens: logp.new_tensor(float(bool(tokens)))))
        return contrast + (_of_best(step, logp, lambda tokens: logp[tokens].sum()) * pairs / count if count else 0.0)
    return contrast + _of_best(step, logp, lambda tokens: mean(tokens) if tokens else logp.new_zeros(()))


def _of_best(step: Step, logp: Tensor, score: Score) -> Tensor:
    """The mean over groups of the mean score of their best rollouts, where not all are equal."""
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        rewards = step.rewards[g]
        if rewards[i] == max(rewards) > min(rewards):
            total = total + score(tokens) / rewards.count(max(rewards))
    return total / len(step.rewards)


def online_kto_loss(step: Step, logp: Tensor, beta: float, success: float, failure: float) -> Tensor:
    implicit = _implicit(step, logp)
    there = [implicit(tokens) for _, _, tokens in step.rollouts() if tokens]
    position = torch.stack(there).mean().clamp(min=0).detach() if there else 0.0
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        ahead = beta * (implicit(tokens) - position)
        total = total + (success * ahead.sigmoid() if step.rewards[g][i] else failure * (-ahead).sigmoid())
    return total / len(step.rollouts())


def xpo_loss(step: Step, logp: Tensor, beta: float, alpha: float) -> Tensor:
    """Online DPO less the weighted log-likelihood, averaged over the rollouts of a group that have tokens."""
    total = online_dpo_loss(step, logp, beta)
    for g, _, tokens in step.rollouts():
        there = sum(length > 0 for length in step.lengths[g])
        if tokens:
            weight = math.exp(sum(step.reference[t] - step.behavior[t] for t in tokens))
            total = total - alpha * weight * logp[tokens].sum() / there / len(step.rewards)
    return total
