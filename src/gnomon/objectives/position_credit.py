"""Credit with a baseline of its own at every position: rollouts are compared where as many tokens have been written.

Positions count the trainable tokens of a rollout, over all its turns.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gnomon.objectives.credit import Rollouts
from gnomon.objectives.token_credit import places_of, table_of

__all__ = ["optimally_centred", "others_optimally_centred"]


def optimally_centred(rollouts: Rollouts, advantage: Callable[[Tensor], Tensor]) -> Tensor:
    """The advantage less its mean over the rollouts that reach the position, each by the squared score so far.

    Equation: Aᵢ − Bₜ, Bₜ = Σⱼ Aⱼ W_jt / Σⱼ W_jt, W_t = Σ_{s≤t} (1 − 2π(yₛ) + Σ_v π(v)²), over the rollouts of the
        group with a token at t; Bₜ = 0 where there is no other. In brackets: ‖∇log π(yₛ)‖² in the logits.
    Returns: [T].
    Raises: ValueError for rollouts without log-probabilities or collision probabilities.
    Source: verl, compute_multi_turn_optimal_token_baseline_advantage; for one turn the same as
        compute_optimal_token_baseline_advantage.
    Differs: without its ε of 1e-8 in the divisor.
    """
    return _less_mean(rollouts, advantage(rollouts.rewards), torch.ones)


def others_optimally_centred(rollouts: Rollouts, advantage: Callable[[Tensor], Tensor]) -> Tensor:
    """`optimally_centred` with the rollout itself left out of the mean, which no longer depends on its tokens.

    Equation: Aᵢ − Σ_{j≠i} Aⱼ W_jt / Σ_{j≠i} W_jt.
    Returns: [T].
    Raises: ValueError for rollouts without log-probabilities or collision probabilities.
    """
    return _less_mean(rollouts, advantage(rollouts.rewards), lambda *size: 1 - torch.eye(*size))


def _less_mean(rollouts: Rollouts, plain: Tensor, peers: Callable[[int, int], Tensor]) -> Tensor:
    """Args: peers: [N, N] one where the second rollout is in the mean of the first."""
    if rollouts.logp is None or rollouts.collision is None:
        raise ValueError("the optimal baseline needs logp and collision on every token")
    place, (groups, size) = places_of(rollouts), plain.shape
    squared = (1 - 2 * rollouts.logp.exp() + rollouts.collision).clamp(min=0)
    here = table_of(rollouts, torch.ones_like(squared), place)
    weight = (table_of(rollouts, squared, place).cumsum(1) * here).reshape(groups, size, -1).to(plain.dtype)
    here = here.reshape(groups, size, -1)
    least = plain.amin(dim=1)[:, None, None]  # Taken off first: where all earn the same the mean is exactly that.
    included = peers(size, size).to(plain)
    total = torch.einsum("ij,gjt->git", included, weight)
    mean = torch.einsum("ij,gjt->git", included, weight * (plain[..., None] - least)) / total.clamp(min=1e-300)
    met = (here.sum(dim=1, keepdim=True) > here) & (total > 0)
    baseline = torch.where(met, least + mean, 0.0)
    return rollouts.spread(plain) - baseline.flatten(0, 1)[place]
