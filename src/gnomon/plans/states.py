"""What a learner keeps beside the weights, how often a step passes over it, and what FSDP2 shards over processes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from torch import Tensor
from transformers.modeling_layers import GradientCheckpointingLayer

from gnomon.config import RunConfig
from gnomon.learners import TokenSequence
from gnomon.learners.batch import costliest_first, costs, pieces
from gnomon.models.policy import Policy
from gnomon.plans.count import bytes_of
from gnomon.plans.devices import Device

__all__ = [
    "adam_bytes",
    "lanes",
    "micro_batch_counts",
    "rank_memory",
    "share_of_time",
    "state_bytes",
    "step_bytes",
    "step_seconds",
    "sum_memory",
]

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
        return 2.0 * sum(packed_bytes(value.numel()) for value in parameters)
    return 2.0 * sum(value.numel() * value.itemsize for value in parameters)


def packed_bytes(count: int) -> int:
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


AT_ONCE = 2
"""Layers whose weights are whole at the same time: the one that computes, and the next one."""


def micro_batch_counts(config: RunConfig, sequences: Sequence[TokenSequence]) -> tuple[int, int]:
    """Micro-batches of a step, and the most that one process has."""
    count = len(pieces(sequences, config.optim.micro_batch))
    return count, -(-count // max(1, config.ranks))


def share_of_time(config: RunConfig, sequences: Sequence[TokenSequence], device: Device, width: int) -> float:
    """The time of a pass over all sequences, as a share of its time in one thread. Processes or threads compute a
    micro-batch each and share the CPU's cores.

    Args: width: length of a hidden state.
    """
    at_once = config.ranks or lanes(config, device)
    per_piece = costs(sequences, pieces(sequences, config.optim.micro_batch), width)
    rounds = sum(per_piece[i] for i in costliest_first(per_piece)[::at_once])
    crowd = at_once / (os.cpu_count() or 1) if device.name == "cpu" else 1.0
    return rounds / sum(per_piece) * max(1.0, crowd)


def lanes(config: RunConfig, device: Device) -> int:
    """Threads that compute side by side."""
    return config.threads if device.name == "cpu" else 1


def rank_memory(config: RunConfig, policy: Policy, sequences: Sequence[TokenSequence]) -> dict[str, float]:
    """Bytes of one process by part, without activations.

    Weights, gradients and the state of the optimiser are shards. Whole, for a while, are the weights of a few layers
    and those that lie outside layers. Args: policy: the whole one.
    """
    *layers, outside = groups(policy)
    frozen = [value for value in policy.model.parameters() if not value.requires_grad]
    share = bytes_of(policy.masters.parameters.values()) / config.ranks
    _, most = micro_batch_counts(config, sequences)
    return {
        "weights": share + bytes_of(frozen) / config.ranks,
        "gradients": (1 + most.bit_length()) * share,  # That before the step, and sums of 1, 2, 4, … micro-batches.
        "optimiser": state_bytes(config, policy.masters.parameters.values()) / config.ranks,
        "gathered": AT_ONCE * max(map(bytes_of, layers), default=0.0) + bytes_of(outside),
    }


def sum_memory(policy: Policy) -> float:
    """Bytes in which the largest gradient is summed over processes: as it is found, and twice in master precision."""
    largest = max(sum(value.numel() for value in group if value.requires_grad) for group in groups(policy))
    return float(largest * (policy.precision.compute.itemsize + 2 * policy.precision.master.itemsize))


def groups(policy: Policy) -> list[list[Tensor]]:
    """The parameters of every layer, and at the end those outside: each group is gathered together."""
    layers = [module for module in policy.model.modules() if isinstance(module, GradientCheckpointingLayer)]
    result: list[list[Tensor]] = [list(layer.parameters()) for layer in layers]
    inside = {id(value) for group in result for value in group}
    return [*result, [value for value in policy.model.parameters() if id(value) not in inside]]
