"""Maximised textbook objectives of the rows for another policy's answers, as functions of log-probabilities [T]."""

from __future__ import annotations

import math
import statistics

import torch
from objective_steps import Step
from torch import Tensor


def dppo_loss(step: Step, logp: Tensor, clip_low: float, clip_high: float, cap: float) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        advantage = step.rewards[g][i] - statistics.fmean(step.rewards[g])
        for t in tokens:
            now = float(logp[t].detach())
            moved = math.exp(now) - math.exp(step.behavior[t])
            if (advantage > 0 and moved > clip_high) or (advantage < 0 and moved < -clip_low):
                continue
            weight = min(math.exp(now - step.behavior[t]), cap)
            total = total + weight * advantage * logp[t] / step.max_tokens
    return total / len(step.rollouts())


def _apart(step: Step, logp: Tensor, tokens: list[int]) -> Tensor:
    return logp[tokens] - torch.tensor([step.behavior[t] for t in tokens], dtype=logp.dtype)


def kimi_k15_loss(step: Step, logp: Tensor, beta: float) -> Tensor:
    """(r − r̄)·log(π/μ) − β/2·log²(π/μ), both of the whole answer."""
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        apart = _apart(step, logp, tokens).sum()
        total = total + (step.rewards[g][i] - statistics.fmean(step.rewards[g])) * apart - beta / 2 * apart**2
    return total / len(step.rollouts())


def kimi_k15_token_loss(step: Step, logp: Tensor, beta: float) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        advantage = step.rewards[g][i] - statistics.fmean(step.rewards[g])
        apart = _apart(step, logp, tokens)
        total = total + advantage * apart.sum() - beta / 2 * (apart**2).sum()
    return total / len(step.rollouts())


def topr_loss(step: Step, logp: Tensor) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        advantage = step.rewards[g][i] - statistics.fmean(step.rewards[g])
        moved = math.exp(sum(float(logp[t].detach()) - step.behavior[t] for t in tokens))
        weight = min(moved, 1.0) if advantage < 0 else 1.0
        total = total + weight * advantage * logp[tokens].sum()
    return total / len(step.rollouts())
