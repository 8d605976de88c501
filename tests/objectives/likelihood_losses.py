"""Maximised textbook objectives of the rows without a verifier, as functions of log-probabilities [T]."""

from __future__ import annotations

import math

from objective_steps import Step
from torch import Tensor


def sft_loss(step: Step, logp: Tensor) -> Tensor:
    return logp.sum() / max(len(step.logp), 1)


def rft_loss(step: Step, logp: Tensor) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        if step.rewards[g][i] == 1:
            total = total + logp[tokens].sum()
    return total / max(len(step.logp), 1)


def fcp_loss(step: Step, logp: Tensor) -> Tensor:
    return sft_loss(step, logp)


def _likelihoods(step: Step) -> list[list[float]]:
    """Of what follows the first token, the reasoning."""
    found: list[list[float]] = [[] for _ in step.rewards]
    for g, _, tokens in step.rollouts():
        found[g].append(math.prod(math.exp(step.proximal[t]) for t in tokens[1:]) if len(tokens) > 1 else 0.0)
    return found


def _ahead(likelihoods: list[float], i: int) -> float:
    others = likelihoods[:i] + likelihoods[i + 1 :]
    return likelihoods[i] - sum(others) / len(others)


def verifree_loss(step: Step, logp: Tensor, baseline_on: str) -> Tensor:
    likely, total = _likelihoods(step), logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        reasoning, answer = tokens[:1], tokens[1:]
        on_answer = _ahead(likely[g], i) if baseline_on == "all" else likely[g][i]
        total = total + _ahead(likely[g], i) * logp[reasoning].sum() + on_answer * logp[answer].sum()
    return total / len(step.rollouts())
