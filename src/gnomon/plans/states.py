"""What an optimiser keeps beside the weights, and how often its step passes over them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from gnomon.config import RunConfig
from gnomon.plans.devices import Device

__all__ = ["adam_bytes", "state_bytes", "step_bytes", "step_seconds"]

BLOCK, LEAST = 256, 4096
"""Of moments in 8 bits: numbers that share a float32 scale, and elements below which a tensor's stay float32."""
UNPACKED = 20
"""Bytes per number of a tensor that a step with moments in 8 bits makes for a while on a CPU: both moments, the
gradient, and two steps on the way to the divisor, in float32."""
PACKING = 2.8e-8
"""Seconds in which a CPU unpacks and packs both moments of one weight. Measured once (docs/results/speed.md)."""


def state_bytes(config: RunConfig, parameters: Iterable[Tensor]) -> float:
    """Bytes of the state of the policy's optimiser. Args: parameters: those that it moves."""
    if config.optim.type == "adamw":
        return adam_bytes(config, parameters)
    return sum(value.numel() * value.itemsize for value in parameters) if config.optim.momentum else 0.0


def adam_bytes(config: RunConfig, parameters: Iterable[Tensor]) -> float:
    """Bytes of the two moments of AdamW."""
    if config.optim.states == "8bit":
        return 2.0 * sum(packed(value.numel()) for value in parameters)
    return 2.0 * sum(value.numel() * value.itemsize for value in parameters)


def packed(count: int) -> int:
    """Bytes of one moment in 8 bits of a tensor with so many elements."""
    return 4 * count if count < LEAST else count + 4 * -(-count // BLOCK)


def step_bytes(config: RunConfig, device: Device, parameters: Iterable[Tensor]) -> float:
    """Bytes that an optimiser step makes and frees again. On a GPU, moments in 8 bits are unpacked in registers."""
    if config.optim.states != "8bit" or device.name != "cpu":
        return 0.0
    return UNPACKED * max((value.numel() for value in parameters if value.numel() >= LEAST), default=0)


def step_seconds(config: RunConfig, device: Device, parameters: Sequence[Tensor]) -> float:
    """Seconds of an optimiser step in one process.

    Clipping reads or writes as many bytes as the gradient has 3 times, and zeroing once. Beside them a step reads
    gradient and weights, writes weights, and reads and writes what it keeps.
    """
    own = sum(value.numel() * value.itemsize for value in parameters)
    seconds = (7 * own + 2 * state_bytes(config, parameters)) / device.bandwidth
    if config.optim.states == "8bit" and device.name == "cpu":
        seconds += PACKING * sum(value.numel() for value in parameters if value.numel() >= LEAST)
    return seconds
