"""How the learning rate goes over a run."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Schedule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A linear rise, then a linear decay."""

    lr: float
    """Peak, reached at the last step of the warm-up."""
    steps: int
    """Optimiser step at which the decay reaches `lr · min_lr_ratio`."""
    warmup: int = 0
    """Optimiser steps of the rise."""
    min_lr_ratio: float = 1.0

    def __call__(self, step: int) -> float:
        """The learning rate of an optimiser step, counted from 1."""
        rise = min(1.0, step / self.warmup) if self.warmup else 1.0
        remaining = 1.0 - max(0, step - self.warmup) / max(1, self.steps - self.warmup)
        return self.lr * rise * (self.min_lr_ratio + (1.0 - self.min_lr_ratio) * max(0.0, remaining))
