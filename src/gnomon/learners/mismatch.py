"""How far a learner's log-probabilities are from a sampler's, and from the policy as the step began."""

from __future__ import annotations

from array import array

import torch
from torch import Tensor

from gnomon.errors import NumericsError
from gnomon.learners.batch import Batch
from gnomon.stats import At, Max, Mean, Quantile, Stats

__all__ = ["BAND", "compare_logp", "drift", "mismatch"]

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


def compare_logp(logp: Tensor, batch: Batch, version: int) -> Stats:
    """How far sampler and learner are apart on what was sampled, before any update.

    Args: logp: [T] under the policy as it is; version: of its weights.
    Raises: NumericsError E202 where they must not be.
    """
    behavior = batch.behavior_logp.to(logp.dtype)
    sampled_mask = ~behavior.isnan()
    logp, behavior = (
        (logp if batch.proximal_logp is None else batch.proximal_logp.to(logp.dtype))[sampled_mask],
        behavior[sampled_mask],
    )
    gap = float((logp - behavior).abs().max()) if len(logp) else 0.0
    if batch.exact and gap != 0.0:
        raise NumericsError(
            "E202",
            f"log-probabilities of sampler and learner differ by {gap:.3g} and must be equal",
            where=f"version {version} of the weights, {int((logp != behavior).sum())} of {len(logp)} tokens",
            why="they were equal when the run began, so the machine or the libraries changed since",
            fix="resume with the library versions in the manifest",
        )
    stats: Stats = {"logp_mismatch": Max(gap)}
    return stats if batch.exact else stats | mismatch(behavior, logp, batch.targets[sampled_mask])


def drift(logp: Tensor, batch: Batch, clipped: Tensor) -> Stats:
    """How far the policy has moved since the step began; none where it has not moved yet.

    Args: logp: [T] under the policy as it is; clipped: [T] whether the ratio took a token's credit away.
    """
    if batch.proximal_logp is None:
        return {}
    ahead = logp - batch.proximal_logp.to(logp.dtype)
    divergence = float((ahead.exp() - 1 - ahead).sum())
    return {"drift": Mean(divergence, len(ahead)), "clipped": Mean(float(clipped.sum()), len(clipped))}
