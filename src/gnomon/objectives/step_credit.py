"""Credit that is divided by something of the whole step: how many groups decide anything, or how far rewards spread."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gnomon.objectives.credit import Rollouts

__all__ = ["by_part", "over_deciding_groups", "over_nonzero_rewards", "over_spread_of_rewards"]


def over_deciding_groups(rollouts: Rollouts, advantage: Callable[[Tensor], Tensor]) -> Tensor:
    """The advantage over the share of the groups that have more than one reward.

    Equation: A·G/G′, G′ groups with more than one reward, of G. Under a mean over G groups it is one over G′.
    Returns: [T]; exactly zero where every group has a single reward.
    Source: Chu et al. 2025 (GPG), arXiv 2504.02546, and AMAP-ML/GPG.
    """
    rewards = rollouts.rewards
    deciding = int((rewards != rewards[:, :1]).any(dim=1).sum())
    return rollouts.spread(advantage(rewards) * (len(rewards) / max(deciding, 1)))


def over_nonzero_rewards(rollouts: Rollouts, advantage: Callable[[Tensor], Tensor]) -> Tensor:
    """The advantage over the share of the rollouts whose reward is not zero: the success rate, for rewards 0 and 1.

    Equation: A·S/#{rⱼ ≠ 0} over the rollouts of the step.
    Returns: [T].
    Source: verl, compute_gpg_outcome_advantage.
    """
    rewards = rollouts.rewards
    return rollouts.spread(advantage(rewards) * (rewards.numel() / max(int((rewards != 0).sum()), 1)))


def over_spread_of_rewards(rollouts: Rollouts, advantage: Callable[[Tensor], Tensor], *, epsilon: float) -> Tensor:
    """The advantage over the deviation of all rewards of the step.

    Equation: A/(s + ε), s² = Σ(r − r̄)²/(S − 1) over the rollouts of the step.
    Args: epsilon, added to the deviation, ≥ 0; in units of reward.
    Returns: [T]; exactly zero where all rewards are equal.
    Source: Liu et al. 2025 (Lite PPO), arXiv 2508.08221; TRL, scale_rewards = batch.
    """
    rewards = rollouts.rewards
    if bool((rewards == rewards[:1, :1]).all()):
        return rollouts.spread(torch.zeros_like(rewards))
    return rollouts.spread(advantage(rewards) / (rewards.std() + epsilon))


def by_part(rollouts: Rollouts, advantage: Callable[[Tensor], Tensor], *, epsilon: float) -> Tensor:
    """The advantage of every part of the reward by itself, weighted and summed, and standardised over the step.

    Equation: A = Σₙ wₙ·Aₙ, Aₙ the advantage in part n alone; (A − Ā)/(s + ε) over the rollouts of the step.
    Args: epsilon, added to the deviation, ≥ 0.
    Returns: [T]; exactly zero where every part is the same over each group.
    Raises: ValueError for rollouts without the parts of their rewards.
    Source: NVIDIA 2026 (GDPO), arXiv 2601.05242; TRL, normalize_then_sum.
    """
    if rollouts.parts is None or rollouts.part_weights is None:
        raise ValueError("this objective compares rewards part by part, and these rollouts have no parts")
    weighted = zip(rollouts.parts.unbind(2), rollouts.part_weights.unbind(2), strict=True)
    total = sum((weight * advantage(part) for part, weight in weighted), torch.zeros_like(rollouts.rewards))
    if total.numel() < 2 or not bool((total != total[:1, :1]).any()):
        return rollouts.spread(torch.zeros_like(total))
    return rollouts.spread((total - total.mean()) / (total.std() + epsilon))
