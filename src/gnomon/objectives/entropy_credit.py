"""Credit that looks at how uncertain the policy was before each token."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gnomon.objectives.credit import Rollouts

__all__ = ["most_uncertain", "most_uncertain_alone", "zero_variance"]


def most_uncertain(entropy: Tensor, *, share: float) -> Tensor:
    """Which tokens have the highest entropies.

    Equation: Hₜ ≥ the (1 − share) quantile of H, interpolated: the 1 + ⌊share·(T−1)⌋ highest, and those level with the
        last of them.
    Args: entropy, [T] nats; share, 0 < share ≤ 1.
    Returns: [T] bool.
    Source: Wang et al. 2025, arXiv 2506.01939; TRL, top_entropy_quantile.
    """
    if not len(entropy):
        return entropy.new_zeros(0, dtype=torch.bool)
    count = 1 + int(share * (len(entropy) - 1) + 1e-9)  # A product just below an integer is that integer.
    return entropy >= entropy.topk(count).values[-1]


def most_uncertain_alone(rollouts: Rollouts, advantage: Callable[[Tensor], Tensor], *, share: float) -> Tensor:
    """The advantage on the tokens of the step whose entropies are the highest, nothing on the others.

    Equation: A·1[Hₜ ≥ the (1 − share) quantile of the step].
    Args: share, of all tokens of the step, 0 < share ≤ 1.
    Returns: [T].
    Raises: ValueError for rollouts without entropies.
    Source: Wang et al. 2025, arXiv 2506.01939.
    """
    return rollouts.spread(advantage(rollouts.rewards)) * most_uncertain(_entropy(rollouts), share=share)


def zero_variance(rollouts: Rollouts, advantage: Callable[[Tensor], Tensor], *, alpha: float) -> Tensor:
    """The advantage where the rewards of a group differ; where they do not, uncertain tokens are raised in right
    rollouts and spared in wrong ones.

    Equation: A where 0 < K < N; α·Hₜ where K = N; −α·(max_s H_s − Hₜ) where K = 0, the maximum over the rollout.
    Args: alpha, α, advantage per nat, ≥ 0.
    Returns: [T].
    Raises: ValueError for rewards other than 0 and 1, and for rollouts without entropies.
    Source: Le et al. 2025 (RL-ZVP), arXiv 2509.21880, eq. 5.
    """
    rewards, entropy, owner = rollouts.rewards, _entropy(rollouts), rollouts.sequence
    if not bool(((rewards == 0) | (rewards == 1)).all()):
        raise ValueError("a group without variance is all right or all wrong: rewards must be 0 or 1")
    largest = entropy.new_zeros(rewards.numel()).scatter_reduce(0, owner, entropy, "amax")[owner]
    alike = rollouts.spread((rewards == rewards[:, :1]).all(dim=1, keepdim=True).expand_as(rewards))
    push = torch.where(rollouts.spread(rewards) == 1, entropy, entropy - largest)
    return torch.where(alike, alpha * push, rollouts.spread(advantage(rewards)))


def _entropy(rollouts: Rollouts) -> Tensor:
    if rollouts.entropy is None:
        raise ValueError("this objective looks at the policy's entropy, and these rollouts have none")
    return rollouts.entropy
