"""The optimisers of a learner and their settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from gnomon.learners.eight_bit import adamw_8bit

__all__ = ["Adam", "Sgd", "optimizer_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adam:
    """Settings of AdamW."""

    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    """The gradient of all parameters together is shortened to this norm."""
    states: Literal["float32", "8bit"] = "float32"
    """In which numbers the two moments are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sgd:
    """Settings of stochastic gradient descent with momentum.

    Equation: v ← momentum·v + g, θ ← θ − lr·v; v = 0 before the first step. Without momentum nothing is kept.
    """

    momentum: float = 0.0
    """Fraction of the last step's v that is kept, from 0 to below 1."""
    max_grad_norm: float = 1.0
    """As in `Adam`: g is shortened before it is used."""


def optimizer_of(settings: Adam | Sgd, parameters: Iterable[Tensor], *, fused: bool) -> torch.optim.Optimizer:
    """An optimiser with the learning rate 0.

    Args: fused: whether it is torch's fused one, which is faster.
    Raises: ConfigError E058 for moments in 8 bits without bitsandbytes.
    """
    if isinstance(settings, Sgd):
        return torch.optim.SGD(parameters, lr=0.0, momentum=settings.momentum, fused=fused)
    betas, eps, decay = settings.betas, settings.eps, settings.weight_decay
    if settings.states == "8bit":
        return adamw_8bit(parameters, betas=betas, eps=eps, weight_decay=decay)
    return torch.optim.AdamW(parameters, lr=0.0, betas=betas, eps=eps, weight_decay=decay, fused=fused)
