"""Rewards of whole groups in, advantages out: [groups, N] to [groups, N], one row per task."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["leave_one_out", "mean_centred", "raw", "standardised"]


def raw(rewards: Tensor) -> Tensor:
    """The reward itself, no baseline.

    Equation: Aᵢ = rᵢ.
    Returns: advantage per rollout; positive raises its probability.
    Source: Williams 1992, doi 10.1007/BF00992696.
    """
    return _groups(rewards).clone()


def leave_one_out(rewards: Tensor) -> Tensor:
    """The reward minus the mean reward of the *other* rollouts of its group.

    Equation: Aᵢ = rᵢ − 1/(N−1) Σ_{j≠i} rⱼ = N/(N−1) · (rᵢ − r̄).
    Returns: advantage per rollout; sums to zero over a group.
    Raises: ValueError for groups of one, where there are no others.
    Source: Kool et al. 2019 (ICLR workshop, "Buy 4 REINFORCE samples"); Ahmadian et al. 2024, arXiv 2402.14740.
    """
    size = _groups(rewards).shape[1]
    if size < 2:
        raise ValueError("leave-one-out needs groups of at least two: a group of one has no others to compare with")
    return mean_centred(rewards) * (size / (size - 1))


def mean_centred(rewards: Tensor) -> Tensor:
    """The reward minus the mean reward of its group, itself included.

    Equation: Aᵢ = rᵢ − r̄.
    Returns: advantage per rollout; sums to zero over a group, exactly zero where all rewards are equal.
    Source: Liu et al. 2025, arXiv 2503.20783.
    """
    centred = _groups(rewards) - rewards.mean(dim=1, keepdim=True)
    return torch.where(_undecided(rewards), torch.zeros_like(centred), centred)


def standardised(rewards: Tensor, *, epsilon: float) -> Tensor:
    """The reward in population standard deviations from the mean of its group.

    Equation: Aᵢ = (rᵢ − r̄) / (σ + ε), σ² = 1/N Σⱼ (rⱼ − r̄)².
    Args: epsilon, added to the deviation, ≥ 0; in units of reward.
    Returns: advantage per rollout; exactly zero where all rewards are equal, also at ε = 0.
    Source: Shao et al. 2024, arXiv 2402.03300, §4.1.2.
    Differs: released code often divides by the sample deviation (N−1), a factor √((N−1)/N) smaller.
    """
    centred = mean_centred(rewards)
    deviation = centred.square().mean(dim=1, keepdim=True).sqrt() + epsilon
    undecided = _undecided(rewards)
    return centred / torch.where(undecided, torch.ones_like(deviation), deviation)


def _undecided(rewards: Tensor) -> Tensor:
    """[groups, 1] whether every rollout of a group earned the same: rounding must not tell them apart."""
    return (rewards == rewards[:, :1]).all(dim=1, keepdim=True)


def _groups(rewards: Tensor) -> Tensor:
    if rewards.dim() != 2 or rewards.shape[1] < 1 or not rewards.is_floating_point():
        shape, dtype = list(rewards.shape), rewards.dtype
        raise ValueError(f"rewards are a floating-point [groups, N] table with N ≥ 1, not {shape} of {dtype}")
    return rewards
