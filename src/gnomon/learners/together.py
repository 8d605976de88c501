"""What the processes of a spread learner do together. Every process makes the same calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor

from gnomon.learners.batch import costliest_first
from gnomon.models.precision import whole
from gnomon.models.sharding import local, row_squares, stored_rows
from gnomon.models.stored import Stored
from gnomon.models.writing import Slot, write

__all__ = ["clip_norm", "gather", "like", "own_rounds", "stored_like", "take_gradients", "write_whole"]


def own_rounds(costs: Sequence[float]) -> Iterator[tuple[int, int]]:
    """For every round the micro-batch of this rank, and 1; where none is left for it the cheapest, and 0.

    Micro-batches are taken from the most expensive to the cheapest, and the k-th of them belongs to rank k mod W. In
    every layer of a pass, each rank waits for the others. So all have the same number of rounds, and the passes of a
    round should cost about the same.
    """
    order = costliest_first(costs)
    for first in range(0, len(order), dist.get_world_size()):
        here = first + dist.get_rank()
        yield (order[here], 1) if here < len(order) else (order[-1], 0)


def gather(own: dict[int, Any]) -> dict[int, Any]:
    """What all ranks found together, in the order of the keys."""
    every: list[dict[int, Any]] = [{}] * dist.get_world_size()
    dist.all_gather_object(every, own)
    return dict(sorted((key, value) for part in every for key, value in part.items()))


def take_gradients(parameters: Iterable[Tensor]) -> list[Tensor]:
    """The own rows of the gradients, which are taken away: zeros where there is none."""
    gradients = []
    for parameter in parameters:
        grad, parameter.grad = parameter.grad, None
        gradients.append(torch.zeros_like(local(parameter)) if grad is None else local(grad))
    return gradients


def clip_norm(parameters: Iterable[Tensor], most: float) -> float:
    """Shorten the gradient to this norm at most. Returns: its norm before, the same for any number of ranks."""
    grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
    squares = [row_squares(grad if grad.dim() else grad[None]).sum() for grad in grads]
    norm = float(torch.stack(squares).sum().sqrt())
    if norm > most:
        for grad in grads:
            local(grad).mul_(most / (norm + 1e-6))
    return norm


def like(rows: Tensor, parameter: Tensor) -> Tensor:
    """The own rows of a tensor as a tensor spread like a parameter."""
    if not isinstance(parameter, DTensor):
        return rows
    return DTensor.from_local(
        rows, parameter.device_mesh, parameter.placements, shape=parameter.shape, stride=parameter.stride()
    )


def stored_like(stored: Stored, name: str, parameter: Tensor) -> Tensor:
    """What an optimiser keeps of a parameter: spread like it, or a number."""
    if stored.shape(name) != tuple(parameter.shape):
        return stored[name]
    return like(stored_rows(stored, name, parameter).to(parameter.device), parameter)


def write_whole(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write whole tensors, gathered one after the other. Only the first rank writes."""
    slots: dict[str, Slot] = {name: (value.dtype, tuple(value.shape)) for name, value in tensors.items()}
    values = (whole(value.detach()) for value in tensors.values())
    if dist.get_rank() == 0:
        write(path, slots, values, metadata)
    else:
        for _ in values:
            pass
    dist.barrier()
