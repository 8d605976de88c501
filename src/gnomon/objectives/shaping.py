"""What is added to a reward before any group sees it: [rollouts] in, [rollouts] out."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["soft_overlong"]


def soft_overlong(lengths: Tensor, *, max_tokens: int, buffer: int) -> Tensor:
    """A penalty that grows over the last tokens before the length limit.

    Equation: 0 for L ≤ L_max − L_c, (L_max − L_c − L)/L_c from there to L_max, −1 beyond.
    Args: lengths, tokens per rollout; max_tokens, L_max; buffer, L_c, 1 … L_max.
    Returns: float64, what to add to the reward of each rollout, −1 … 0.
    Raises: ValueError for a buffer out of range.
    Source: Yu et al. 2025 (DAPO), arXiv 2503.14476, eq. 13 (L_max 20480, L_c 4096).
    """
    if not 1 <= buffer <= max_tokens:
        raise ValueError(f"the buffer must lie in 1 … {max_tokens}, not at {buffer}")
    return ((max_tokens - buffer - lengths.to(torch.float64)) / buffer).clamp(-1.0, 0.0)
