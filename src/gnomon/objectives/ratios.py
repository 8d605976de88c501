"""How far the policy has moved, as a multiplier of the advantage: [T] log-ratios in, [T] multipliers out.

Ratio: policy over proximal, may look at the advantage. Correction: proximal over behavior, may not.
Every multiplier is finite: log-ratios beyond ±80 are held there (e⁸⁰ ≈ 5.5e34 still fits float32).
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["no_correction", "no_ratio", "ppo_clip", "truncated", "unclipped"]

LIMIT = 80.0


def no_ratio(log_ratio: Tensor, advantage: Tensor) -> Tensor:
    """Plain score function: one everywhere, however far the policy has moved."""
    return torch.ones_like(log_ratio)


def unclipped(log_ratio: Tensor, advantage: Tensor) -> Tensor:
    """The importance ratio of each token.

    Equation: ρ = π(yₜ|y_{<t}) / π_prox(yₜ|y_{<t}).
    Returns: multiplier per token, > 0.
    """
    return _exp(log_ratio)


def ppo_clip(log_ratio: Tensor, advantage: Tensor, *, low: float, high: float) -> Tensor:
    """The importance ratio, and zero once a token has moved far enough the way its advantage points.

    Equation: ρ · 1[not (A > 0 and ρ > 1+high) and not (A < 0 and ρ < 1−low)],
        the gradient of min(ρA, clip(ρ, 1−low, 1+high)·A) divided by A.
    Args: low, high, width of the band below and above 1, ≥ 0.
    Returns: multiplier per token, ≥ 0; not bounded where the policy moved against the advantage.
    Source: Schulman et al. 2017, arXiv 1707.06347, eq. 7.
    Differs: on the edge itself, where the surrogate has two slopes, the token keeps its gradient.
    """
    ratio = _exp(log_ratio)
    spent = ((advantage > 0) & (ratio > 1 + high)) | ((advantage < 0) & (ratio < 1 - low))
    return torch.where(spent, torch.zeros_like(ratio), ratio)


def no_correction(log_ratio: Tensor) -> Tensor:
    """Take the behavior for the proximal policy: one everywhere."""
    return torch.ones_like(log_ratio)


def truncated(log_ratio: Tensor, *, cap: float) -> Tensor:
    """Truncated importance weight of each token, for a sampler that is not quite the proximal policy.

    Equation: min(π_prox/μ, cap).
    Args: cap, > 0; 2 is usual.
    Returns: multiplier per token, > 0 and at most cap.
    Source: Yao et al. 2025, fengyao.notion.site/off-policy-rl.
    """
    return _exp(log_ratio).clamp(max=cap)


def _exp(log_ratio: Tensor) -> Tensor:
    return log_ratio.clamp(-LIMIT, LIMIT).exp()
