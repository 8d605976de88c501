"""What an optimiser keeps beside the weights, and how often its step passes over them."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from gnomon.config import RunConfig

__all__ = ["adam_bytes", "state_bytes", "step_passes"]


def state_bytes(config: RunConfig, parameters: Iterable[Tensor]) -> float:
    """Bytes of the state of the policy's optimiser. Args: parameters: those that it moves."""
    if config.optim.type == "adamw":
        return adam_bytes(parameters)
    return sum(value.numel() * value.itemsize for value in parameters) if config.optim.momentum else 0.0


def adam_bytes(parameters: Iterable[Tensor]) -> float:
    """Bytes of the two moments of AdamW."""
    return 2.0 * sum(value.numel() * value.itemsize for value in parameters)


def step_passes(config: RunConfig) -> int:
    """How often an optimiser step reads or writes as many bytes as the gradient has.

    Clipping takes 3 passes and zeroing 1. Beside them a step reads gradient and weights, writes weights, and reads and
    writes each number that it keeps.
    """
    kept = 2 if config.optim.type == "adamw" else int(config.optim.momentum > 0)
    return 7 + 2 * kept
