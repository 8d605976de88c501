"""What a plan counts of a learner that is sharded over several processes by FSDP2."""

from __future__ import annotations

import os
from collections.abc import Sequence

from torch import Tensor
from transformers.modeling_layers import GradientCheckpointingLayer

from gnomon.config import RunConfig
from gnomon.learners import TokenSequence
from gnomon.learners.batch import costliest_first, costs, pieces
from gnomon.models.policy import Policy
from gnomon.plans.count import bytes_of
from gnomon.plans.devices import Device
from gnomon.plans.states import state_bytes

__all__ = ["micro_batch_counts", "rank_memory", "share_of_time", "sum_memory"]

AT_ONCE = 2
"""Layers whose weights are whole at the same time: the one that computes, and the next one."""


def micro_batch_counts(config: RunConfig, sequences: Sequence[TokenSequence]) -> tuple[int, int]:
    """Micro-batches of a step, and the most that one process has."""
    count = len(pieces(sequences, config.optim.micro_batch))
    return count, -(-count // max(1, config.ranks))


def share_of_time(config: RunConfig, sequences: Sequence[TokenSequence], device: Device, width: int) -> float:
    """The time of a pass over all sequences, as a share of its time in one process. Processes share the CPU's cores.

    Args: width: length of a hidden state.
    """
    if not config.ranks:
        return 1.0
    per_piece = costs(sequences, pieces(sequences, config.optim.micro_batch), width)
    rounds = sum(per_piece[i] for i in costliest_first(per_piece)[:: config.ranks])
    crowd = config.ranks * config.threads / (os.cpu_count() or 1) if device.name == "cpu" else 1.0
    return rounds / sum(per_piece) * max(1.0, crowd)


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
