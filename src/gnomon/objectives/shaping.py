"""What is added to a reward before any group sees it: [rollouts] in, [rollouts] out."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from gnomon.objectives.credit import Advantage, Credit, Rollouts

__all__ = ["less_overlong", "soft_overlong"]


def soft_overlong(lengths: Tensor, *, max_tokens: int, buffer: int) -> Tensor:
    """A penalty that grows over the last tokens before the length limit of a reply.

    Equation: 0 for L ≤ L_max − L_c, (L_max − L_c − L)/L_c from there to L_max, −1 beyond.
    Args: lengths, tokens per reply; max_tokens, L_max, the limit of a reply; buffer, L_c, 1 … L_max.
    Returns: float64, what to add to a reward for each length, −1 … 0.
    Raises: ValueError for a buffer out of range.
    Source: Yu et al. 2025 (DAPO), arXiv 2503.14476 (L_max 20480, L_c 4096).
    """
    if not 1 <= buffer <= max_tokens:
        raise ValueError(f"the buffer must lie in 1 … {max_tokens}, not at {buffer}")
    return ((max_tokens - buffer - lengths.to(torch.float64)) / buffer).clamp(-1.0, 0.0)


def less_overlong(credit: Credit, *, max_tokens: int, buffer: int) -> Credit:
    """The same credit of rewards from which the `soft_overlong` of each rollout's longest reply was taken.

    A rollout of several turns has a limit for each reply. Its longest reply is the one nearest to being cut off, so it
    alone counts: the penalty is −1 … 0 for any number of turns, and many short replies cost nothing.

    Args: max_tokens, buffer: as there.
    Raises: ValueError for a buffer out of range; the credit, for rollouts whose segments have rewards of their own.
    """
    soft_overlong(torch.zeros(0), max_tokens=max_tokens, buffer=buffer)

    def shaped(rollouts: Rollouts, advantage: Advantage) -> Tensor:
        if rollouts.segment_rewards is not None:
            raise ValueError("a rollout that is paid part by part has no one reward to take from")
        longest = rollouts.lengths if rollouts.longest is None else rollouts.longest
        late = soft_overlong(longest, max_tokens=max_tokens, buffer=buffer)
        return credit(replace(rollouts, rewards=rollouts.rewards + late.to(rollouts.rewards.dtype)), advantage)

    return shaped
