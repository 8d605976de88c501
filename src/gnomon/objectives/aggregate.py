"""What one token weighs in the gradient of the step: [T] weights, the division by the whole step included.

Weights are final. Summing over tokens, then over micro-batches, is all that remains to be done, so no
split of a step can change its gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnomon.objectives.tokens import Denominators, Reach, Tokens, reaches

__all__ = ["constant", "group_sum", "prompt_mean", "sequence_mean", "sequence_sum", "token_mean"]


@reaches(Reach.TOKEN)
def sequence_sum(tokens: Tokens, denominators: Denominators) -> Tensor:
    """Sum over the tokens of a rollout, mean over rollouts.

    Equation: 1/S.
    Returns: weight per token; all equal.
    """
    return torch.full_like(tokens.logp, 1 / denominators.sequences)


@reaches(Reach.TOKEN)
def group_sum(tokens: Tokens, denominators: Denominators) -> Tensor:
    """Sum over the tokens of a group, mean over groups: for pairs, of which a group makes one.

    Equation: 1/G.
    Returns: weight per token; all equal.
    """
    return torch.full_like(tokens.logp, 1 / denominators.groups)


@reaches(Reach.TOKEN)
def constant(tokens: Tokens, denominators: Denominators) -> Tensor:
    """Sum over the tokens of a rollout, divided by the length limit; mean over rollouts.

    Equation: 1/(S·L_max).
    Returns: weight per token; all equal, at most 1/S for a rollout of full length.
    Source: Liu et al. 2025, arXiv 2503.20783.
    """
    return torch.full_like(tokens.logp, 1 / (denominators.sequences * denominators.max_tokens))


@reaches(Reach.TOKEN)
def sequence_mean(tokens: Tokens, denominators: Denominators) -> Tensor:
    """Mean over the tokens of a rollout, mean over rollouts. Short rollouts move the policy more.

    Equation: 1/(S·|oᵢ|).
    Returns: weight per token; sums to 1/S over a rollout with tokens. One without still counts in S.
    Source: Shao et al. 2024, arXiv 2402.03300.
    """
    return 1 / (denominators.sequences * tokens.lengths).to(tokens.logp.dtype)


@reaches(Reach.TOKEN)
def token_mean(tokens: Tokens, denominators: Denominators) -> Tensor:
    """Mean over all tokens of the step. Long rollouts move the policy more.

    Equation: 1/Σᵢ|oᵢ|, the sum over the whole step.
    Returns: weight per token; all equal, sums to one over the step.
    Source: Yu et al. 2025 (DAPO), arXiv 2503.14476.
    """
    return torch.full_like(tokens.logp, 1 / max(denominators.tokens, 1))


@reaches(Reach.TOKEN)
def prompt_mean(tokens: Tokens, denominators: Denominators) -> Tensor:
    """Mean over the tokens of a group, mean over groups. Every prompt moves the policy alike.

    Equation: 1/(G·Σ_{i∈g}|oᵢ|).
    Returns: weight per token; sums to 1/G over a group with tokens.
    Raises: ValueError where the step does not say how many tokens each group has.
    Source: Khatri et al. 2025 (ScaleRL), arXiv 2510.13786.
    """
    if not denominators.group_tokens:
        raise ValueError("a mean over prompts needs group_tokens among the denominators of the step")
    sizes = torch.tensor(denominators.group_tokens, device=tokens.group.device)[tokens.group]
    return 1 / (denominators.groups * sizes).to(tokens.logp.dtype)
