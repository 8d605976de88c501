"""Credit that remembers the rewards of a task from its earlier visits."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gnomon.objectives.credit import Rollouts

__all__ = ["blended_over_visits", "visited"]


def blended_over_visits(rollouts: Rollouts, advantage: Callable[[Tensor], Tensor], *, epsilon: float) -> Tensor:
    """The advantage in the group, blended with the reward standardised over all visits of the task, whichever is less.

    Equation: A = a₁ if |a₁| < |a₂| else a₂, a₁ = (z + (n−1)·A_g)/n, a₂ = (A_g + (n−1)·z)/n, z = (r − m)/(√v + ε), at
        the n-th visit, m and v as `visited` has them; A_g the advantage of the row in the group.
    Args: epsilon, added to the deviation, ≥ 0; in units of reward.
    Returns: [T]; at a first visit the advantage in the group, and zero for groups of one. Later it is not zero where
        all rewards of the group are equal, unless those of earlier visits were equal to them too.
    Source: Yang et al. 2025 (DCPO), arXiv 2509.02333; lime-RL/DCPO, compute_dcpo_outcome_advantage.
    Differs: there ε is not added, and a group of one is an error.
    """
    rewards, now = rollouts.rewards, advantage(rollouts.rewards)
    if rollouts.visits is None or rewards.shape[1] == 1:
        return rollouts.spread(now)
    count, mean, variance = visited(rollouts).to(rewards.dtype).unbind(2)
    deviation = variance.sqrt()
    whole = torch.where(
        deviation > 0, (rewards - mean) / (deviation + epsilon).clamp(min=torch.finfo(rewards.dtype).tiny), 0
    )
    near_now, near_whole = (whole + (count - 1) * now) / count, (now + (count - 1) * whole) / count
    blended = torch.where(near_now.abs() < near_whole.abs(), near_now, near_whole)
    return rollouts.spread(torch.where(count > 1, blended, now))


def visited(rollouts: Rollouts) -> Tensor:
    """[G, N, 3] visits of the task of each rollout with this one, and the mean and variance of rewards over them.

    Equation: of a task with n visits: m ← ((n−1)·m + r̄)/n, v ← ((n−1)·v + s² + (n−1)/n·(r̄ − m)²)/n, with r̄ and s² the
        mean and sample variance of the group and m and v those of the visits before; at the first r̄ and s².
    Returns: of rewards in units of reward, squared for the variance.
    """
    rewards, earlier = rollouts.rewards.double(), rollouts.visits
    size = rewards.shape[1]
    least = rewards.amin(dim=1, keepdim=True)
    mean = least + (rewards - least).mean(dim=1, keepdim=True)  # Exactly the reward where all are equal.
    variance = (rewards - mean).square().sum(dim=1, keepdim=True) / max(size - 1, 1)
    before = torch.zeros(*rewards.shape, 3, dtype=rewards.dtype) if earlier is None else earlier.double()
    past, old_mean, old_variance = before.unbind(2)
    count = past + 1
    apart = past / count * (mean - old_mean).square()
    new = [count, old_mean + (mean - old_mean) / count, (past * old_variance + variance + apart) / count]
    return torch.stack([value.expand(rewards.shape) for value in new], dim=2)
