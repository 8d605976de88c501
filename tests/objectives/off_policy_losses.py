"""Maximised textbook objectives of the rows for another policy's answers, as functions of log-probabilities [T]."""

from __future__ import annotations

import math
import statistics

import torch
from objective_steps import Step
from torch import Tensor


def dppo_loss(step: Step, logp: Tensor, clip_low: float, clip_high: float, cap: float, by: str) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        advantage = step.rewards[g][i] - statistics.fmean(step.rewards[g])
        for t in tokens:
            now = float(logp[t].detach())
            moved = math.exp(now) - math.exp(step.behavior[t])
            far = abs(moved) if by == "probability" else _divergence(math.exp(now), math.exp(step.behavior[t]))
            if moved * advantage > 0 and far > (clip_high if advantage > 0 else clip_low):
                continue
            weight = min(math.exp(now - step.behavior[t]), cap)
            total = total + weight * advantage * logp[t] / step.max_tokens
    return total / len(step.rollouts())


def _apart(step: Step, logp: Tensor, tokens: list[int]) -> Tensor:
    return logp[tokens] - torch.tensor([step.behavior[t] for t in tokens], dtype=logp.dtype)


def _divergence(now: float, before: float) -> float:
    """Of whether the token is written, under μ from π."""
    apart, rest_now, rest_before = before * math.log(before / now), max(1 - now, 0.0), max(1 - before, 0.0)
    if rest_before:
        apart += rest_before * math.log(rest_before / rest_now) if rest_now else math.inf
    return apart


def kimi_k15_loss(step: Step, logp: Tensor, beta: float, ratio: str) -> Tensor:
    """(r − r̄)·log(π/μ) − β/2·log²(π/μ), of the whole answer or of each token."""
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        apart = _apart(step, logp, tokens)
        if ratio == "answer":
            apart = apart.sum()
        advantage = step.rewards[g][i] - statistics.fmean(step.rewards[g])
        total = total + (advantage * apart - beta / 2 * apart**2).sum()
    return total / len(step.rollouts())


def topr_loss(step: Step, logp: Tensor) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        advantage = step.rewards[g][i] - statistics.fmean(step.rewards[g])
        moved = math.exp(sum(float(logp[t].detach()) - step.behavior[t] for t in tokens))
        weight = min(moved, 1.0) if advantage < 0 else 1.0
        total = total + weight * advantage * logp[tokens].sum()
    return total / len(step.rollouts())
