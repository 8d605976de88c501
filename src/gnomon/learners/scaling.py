"""The factor that keeps small gradients of a float16 pass above zero."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

__all__ = ["LossScale"]

START = 2.0**16
"""First factor of a loss in float16."""
PATIENCE = 1000
"""Optimiser steps in a row with a finite gradient, after which the factor is doubled."""


class LossScale:
    """A loss is multiplied by `value` before its backward pass, and its gradient divided by it before it is used.

    A float16 holds no positive number below 6e-8 and none above 65504. The factor is a power of two, so it changes no
    bit of a gradient that neither vanishes nor overflows. Of every other dtype it is 1 and stays so.

    Args: compute: the dtype of the backward pass.
    Source: Micikevicius et al. 2018 (mixed precision training), arXiv 1710.03740, §3.2.
    Differs: doubled after 1,000 good steps, in torch's GradScaler after 2,000, since a run has fewer; never below 1.
    """

    def __init__(self, compute: torch.dtype) -> None:
        self.moves = compute == torch.float16
        self.value = START if self.moves else 1.0
        self.good = 0
        """Steps with a finite gradient since the factor changed."""

    def unscale(self, parameters: Iterable[Tensor]) -> None:
        """Divide the gradients that were gathered."""
        if self.value != 1.0:
            for parameter in parameters:
                if parameter.grad is not None:
                    parameter.grad.mul_(1 / self.value)

    def finite(self) -> None:
        """An optimiser step was taken."""
        self.good += 1
        if self.moves and self.good >= PATIENCE:
            self.value, self.good = 2 * self.value, 0

    def halve(self) -> None:
        """A gradient was not finite."""
        self.value, self.good = max(1.0, self.value / 2), 0

    @property
    def can_fall(self) -> bool:
        """Whether a smaller factor can be tried."""
        return self.value > 1.0

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps; empty where the factor never changes."""
        numbers = {"loss_scale": self.value, "loss_scale_good": self.good} if self.moves else {}
        return {name: torch.tensor(float(value), dtype=torch.float64, device="cpu") for name, value in numbers.items()}

    def take(self, state: dict[str, Tensor]) -> None:
        """Take back what `state` gave out of what a checkpoint holds. One without it begins with the first factor."""
        if "loss_scale" in state:
            self.value, self.good = float(state.pop("loss_scale")), int(state.pop("loss_scale_good"))
