"""Sampling from a part of the vocabulary: which tokens are kept, and log-probabilities among those alone.

A sampler that cuts its distribution off draws from the renormalised rest. An importance ratio stays exact if both
of its log-probabilities are of distributions over the *sampler's* set, in the same states; the target is then the
policy so restricted. The policy's own set must not stand in for it, and neither must the full distribution.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["kept_min_p", "kept_top_k", "kept_top_p", "restricted_logp"]


def restricted_logp(logits: Tensor, kept: Tensor) -> Tensor:
    """Log-probabilities among the kept tokens.

    Equation: log π(a) − log Σ_{b kept} π(b) for kept tokens a, −∞ for the others.
    Args: logits, [..., V] at the sampler's temperature; kept, [..., V] bool, the sampler's set, at least one in
        every state.
    Returns: [..., V]; differentiable, the gradient of what is not kept is zero.
    Raises: ValueError for masks of another shape or kind, or with nothing kept somewhere.
    """
    if kept.shape != logits.shape or kept.dtype != torch.bool:
        raise ValueError(f"kept is a bool mask like logits {list(logits.shape)}, not {list(kept.shape)} {kept.dtype}")
    if not kept.any(dim=-1).all():
        raise ValueError("at least one token must be kept in every state")
    return logits.masked_fill(~kept, -math.inf).log_softmax(dim=-1)


def kept_top_k(logits: Tensor, k: int) -> Tensor:
    """The k most likely tokens.

    Args: logits, [..., V]; k ≥ 1, the whole vocabulary where it is larger.
    Returns: [..., V] bool; more than k where the last of them is as likely as tokens that follow it.
    Raises: ValueError for k below 1.
    Source: Fan et al. 2018, arXiv 1805.04833.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    edge = logits.topk(min(k, logits.shape[-1]), dim=-1).values[..., -1:]
    return logits >= edge


def kept_top_p(logits: Tensor, p: float) -> Tensor:
    """The fewest most likely tokens that hold a probability of p together.

    Args: logits, [..., V]; p, 0 < p ≤ 1.
    Returns: [..., V] bool; tokens as likely as the last of them are kept too. All where p is 1.
    Raises: ValueError for p out of range.
    Source: Holtzman et al. 2020, arXiv 1904.09751.
    """
    if not 0 < p <= 1:
        raise ValueError(f"p must lie above 0 and at most at 1, not at {p}")
    if p == 1:
        return torch.ones_like(logits, dtype=torch.bool)
    order = logits.sort(dim=-1, descending=True).values
    chance = order.softmax(dim=-1)
    before = chance.cumsum(dim=-1) - chance
    # What comes before the first token is no probability at all, and rounding must not say otherwise.
    before[..., 0] = 0
    last = (before < p).sum(dim=-1, keepdim=True) - 1
    return logits >= order.gather(-1, last)


def kept_min_p(logits: Tensor, p: float) -> Tensor:
    """The tokens at least p times as likely as the most likely one.

    Args: logits, [..., V]; p, 0 ≤ p ≤ 1.
    Returns: [..., V] bool. All where p is 0.
    Raises: ValueError for p out of range.
    Source: Nguyen et al. 2024, arXiv 2407.01082.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"p must lie in 0 … 1, not at {p}")
    if p == 0:
        return torch.ones_like(logits, dtype=torch.bool)
    return logits >= logits.amax(dim=-1, keepdim=True) + math.log(p)
