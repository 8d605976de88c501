"""Length bias in two other ways than by enumeration: closed forms, and sampled groups with a standard error."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from gnomon.objectives import Objective
from gnomon.theory.length import group_gradients


class SampledBias(NamedTuple):
    """As `LengthBias`, with the standard errors of its means."""

    right: float
    wrong: float
    right_error: float
    wrong_error: float


def own_mean_bias(stop: float) -> float:
    """The gradient per unit of advantage where an answer is divided by its own length.

    Equation: E[(1 − sL)/L] = s·ln(1/s)/(1−s) − s.
    Args: stop, s, 0 < s < 1.
    Source: derived; the bias is that of Liu et al. 2025, arXiv 2503.20783.
    """
    return stop * math.log(1 / stop) / (1 - stop) - stop


def group_mean_bias(stop: float, group: int) -> float:
    """The gradient per unit of advantage where a group of N is divided by the mean length of its answers.

    Equation: N·E[1/T] − s, T the tokens of N answers; it vanishes as 1/N.
    Args: stop, s, 0 < s < 1.
    Source: derived: by symmetry E[L/T] = 1/N.
    """
    # T is the place of the N-th stop. Its chances fall from the mode outward; beyond 60 deviations nothing is left.
    last = int(group / stop + 60 * math.sqrt(group * (1 - stop)) / stop) + 1
    chance, total = stop**group, 0.0
    for tokens in range(group, last):
        total += chance / tokens
        chance *= (1 - stop) * tokens / (tokens + 1 - group)
    return group * total - stop


def decay_bias(stop: float, decay: float) -> float:
    """The gradient per unit of advantage where the credit of a token fades with its distance from the end.

    Equation: E[Σₜ λ^{L−t}·scoreₜ] = (1−s)(1−λ)/(1−λ(1−s)): zero only for λ = 1.
    Args: stop, s, 0 < s < 1; decay, λ, 0 … 1, as in generalised advantage estimation under a critic that
        expects nothing.
    Source: derived; Schulman et al. 2016, arXiv 1506.02438 for λ.
    """
    return (1 - stop) * (1 - decay) / (1 - decay * (1 - stop))


def sampled_length_bias(
    row: Objective,
    *,
    group: int = 8,
    success: float = 0.4,
    stop: float = 0.1,
    max_tokens: int = 400,
    groups: int = 20_000,
    seed: int = 0,
) -> SampledBias:
    """The bias of a row from sampled groups, with its standard errors.

    Args: as in `length_bias`; groups, how many to sample; seed, of their generator.
    Raises: ValueError where the row refuses such groups.
    """
    source = torch.Generator().manual_seed(seed)
    right = (torch.rand(groups, group, generator=source, dtype=torch.float64) < success).to(torch.float64)
    natural = torch.empty(groups, group, dtype=torch.float64).geometric_(stop, generator=source).long()
    lengths, ended = natural.clamp(max=max_tokens), natural <= max_tokens
    order = lengths.sum(dim=1).argsort(stable=True)
    gradients = group_gradients(row, right[order], lengths[order], ended[order], stop=stop, max_tokens=max_tokens)
    mean, error = gradients.mean(dim=0), gradients.std(dim=0) / math.sqrt(groups)
    return SampledBias(float(mean[0]), float(mean[1]), float(error[0]), float(error[1]))
