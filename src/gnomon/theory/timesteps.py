"""The policy gradient of one answer by how many tokens a timestep has: 1 for tokens, all for whole answers.

A timestep of k tokens is one action, whose log-probability is the sum of theirs. Importance ratio and credit are those
of the timestep, so k leads from the ratio of a token to that of the answer. Every expectation is a finite sum.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnomon.theory.exact import Moments
from gnomon.theory.world import World

__all__ = ["timestep_gradient"]


def timestep_gradient(
    space: World, size: int, *, policy: Tensor, behavior: Tensor, rewards: Tensor, critic: Tensor | None = None
) -> Moments:
    """Mean and covariance trace of the gradient of one answer, sampled from `behavior`, taken at `policy`.

    Equation: g = Σ_b ρ_b·A_b·∇log π(b), timesteps b of `size` consecutive tokens, ρ_b = π(b)/μ(b). A_b is the reward R
        of the answer; with a critic it is V(next) − V(b), and R in place of V(next) after the last timestep.
    Args: size: tokens per timestep, 1 or more; policy, behavior: [prefixes, 3] logits; rewards: [answers]; critic:
        [prefixes] values that the credit of a timestep ends in (λ = 0).
    """
    start = space.lengths.cumsum(0) - space.lengths
    position = torch.arange(len(space.answer)) - start[space.answer]
    owner = space.answer * space.max_tokens + position // size
    first, last = position % size == 0, torch.roll(owner, -1) != owner
    log_ratio = space.logp(policy) - space.logp(behavior)

    def add_up(values: Tensor) -> Tensor:
        return values.new_zeros(len(space.answers) * space.max_tokens).index_add(0, owner, values)[owner]

    ratio = add_up(log_ratio).exp()
    credit = rewards[space.answer]
    if critic is not None:
        values = critic[space.prefix]
        after = torch.where(torch.roll(space.answer, -1) == space.answer, torch.roll(values, -1), credit)
        change = torch.where(last, after, 0.0) - torch.where(first, values, 0.0)
        credit = add_up(change)
    each = space.per_answer((ratio * credit)[:, None] * space.scores(policy))
    chance = space.chances(behavior)
    mean = chance @ each
    variance = chance @ (each - mean).square().sum(dim=1)
    return Moments(mean=mean, variance=float(variance), groups=len(space.answers))
