"""How far the log-probabilities of a sampler are from a learner's, where they need not be equal."""

from __future__ import annotations

from array import array

import torch
from torch import Tensor

from gnomon.stats import At, Mean, Quantile, Stats

__all__ = ["BAND", "mismatch"]

BAND = (0.5, 2.0)
"""Ratios of learner to sampler outside of it are counted."""


def mismatch(behavior: Tensor, logp: Tensor, tokens: Tensor) -> Stats:
    """Metrics of sampled tokens, as `METRICS` explains them. None where there are no tokens.

    The divergence is k3, r − 1 − log r with r = learner / sampler, which is unbiased on tokens of the sampler
    (Schulman 2020, "Approximating KL divergence").

    Args: behavior, logp, tokens: [T] of the sampler, of the learner, and the token ids.
    """
    if not len(tokens):
        return {}
    ahead = (logp - behavior).double()
    gaps, worst = ahead.abs(), int(ahead.abs().argmax())
    ratio = ahead.exp()
    outside = ~((ratio >= BAND[0]) & (ratio <= BAND[1]))
    return {
        "mismatch/mean": Mean(float(gaps.sum()), len(gaps)),
        "mismatch/p99": Quantile(array("d", gaps.tolist()), 0.99),
        "mismatch/kl": Mean(float((torch.expm1(ahead) - ahead).sum()), len(ahead)),
        "mismatch/outside": Mean(float(outside.sum()), len(ahead)),
        "mismatch/token": At(float(gaps[worst]), float(tokens[worst])),
    }
