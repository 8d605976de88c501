"""A policy whose weights are spread over processes by FSDP2, with sums that do not depend on their number."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.fsdp._fully_shard._fsdp_api import ReduceScatter
from torch.distributed.tensor import DTensor
from transformers.modeling_layers import GradientCheckpointingLayer

from gnomon.models.policy import Policy, place_parameters
from gnomon.models.precision import Precision, require_fitting, shapes_of, whole
from gnomon.models.stored import Stored, weights_of

__all__ = ["Pairwise", "Shards", "shard", "spread", "stored_rows", "tree_sum"]


def spread(
    load: Callable[[], Policy],
    outline: Callable[[], Policy | None],
    mesh: DeviceMesh,
    precision: Precision,
    *,
    trainable: bool = True,
) -> Policy:
    """A policy whose weights are spread over the processes of a mesh, each of which reads its own rows.

    Where the tensors of the folder are not the parameters of the model, the processes read whole copies one after the
    other.

    Args: load, outline: `Policy.load` and `Policy.outline` of the same folder; the others as in `shard`.
    """
    policy = outline()
    if policy is not None:
        shard(policy, mesh, precision, trainable=trainable)
        return policy
    for turn in range(mesh.size()):
        if turn == mesh.get_local_rank():
            policy = load()
            shard(policy, mesh, precision, trainable=trainable)
        dist.barrier()
    assert policy is not None
    return policy


def shard(policy: Policy, mesh: DeviceMesh, precision: Precision, *, trainable: bool = True) -> None:
    """Spread the weights of a policy over the processes of a mesh, in place: rows of every parameter.

    Every layer is gathered before it computes and spread again after it. Gradients are summed over the processes in
    the master's dtype by `OrderedSum`.

    Args:
        policy: with all weights in master precision, the same on every process; or as `Policy.outline` makes it,
            without any; then the rows of this process are read from its folder. With an adapter, its base is in the
            dtype that it computes in.
        precision: that it computes in from now on.
        trainable: False for a reference. What lies outside its layers stays gathered, because another policy's pass
            reads its vocabulary projection.
    """
    rounded = precision.compute if precision.rounds and not policy.adapter else None
    numbers = MixedPrecisionPolicy(
        param_dtype=rounded, reduce_dtype=precision.master if rounded else None, cast_forward_inputs=False
    )
    layers = [module for module in policy.model.modules() if isinstance(module, GradientCheckpointingLayer)]
    for layer in layers:
        fully_shard(layer, mesh=mesh, mp_policy=numbers, reshard_after_forward=True)
    fully_shard(policy, mesh=mesh, mp_policy=numbers, reshard_after_forward=trainable)
    register_fsdp_forward_method(policy, "collision")
    for module in policy.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
            module.set_custom_reduce_scatter(OrderedSum())
            module.set_reduce_scatter_unused_params(True)
    fill(policy, torch.device(mesh.device_type))
    policy.precision = precision
    policy.masters = Shards(policy.state())


@torch.no_grad()
def fill(policy: Policy, device: torch.device) -> None:
    """Read the own rows of parameters that have no values yet."""
    if not policy.sources:
        return
    assert policy.folder is not None
    place_parameters(policy, lambda value: torch.empty_like(value, device=device) if value.is_meta else value)
    own = dict(policy.model.named_parameters())
    with weights_of(policy.folder) as stored:
        for name, source in policy.sources.items():
            local(own[name]).copy_(stored_rows(stored, source, own[name]))
    policy.sources = {}


class Shards:
    """The rows of every parameter that this process holds, in the place of `Masters`."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        self.parameters: Mapping[str, Tensor] = dict(parameters)

    def round(self) -> None:
        """FSDP rounds the weights where it gathers them."""

    @torch.no_grad()
    def load(self, state: Mapping[str, Tensor]) -> None:
        """Copy the own rows of whole weights. Raises: ModelError E304 when names or shapes differ."""
        require_fitting(self.parameters, shapes_of(state))
        for name, value in self.parameters.items():
            own = stored_rows(state, name, value) if isinstance(state, Stored) else rows_of(state[name], value)
            local(value).copy_(own)


def local(value: Tensor) -> Tensor:
    """The part of a tensor that this process holds, not copied."""
    return value.to_local() if isinstance(value, DTensor) else value


def rows_of(value: Tensor, like: Tensor) -> Tensor:
    """The rows of a whole tensor that this process holds of another one of the same shape."""
    if not isinstance(like, DTensor):
        return value
    first, end = own_rows(like)
    return value[first:end]


def stored_rows(stored: Stored, name: str, like: Tensor) -> Tensor:
    """As `rows_of`; the other rows are not read."""
    return stored.rows(name, *own_rows(like)) if isinstance(like, DTensor) else stored[name]


def own_rows(value: DTensor) -> tuple[int, int]:
    """The first row of a spread tensor that this process holds, and the one after the last."""
    rank, count, rows = value.device_mesh.get_local_rank(), value.device_mesh.size(), value.shape[0]
    most = -(-rows // count)
    return min(rank * most, rows), min((rank + 1) * most, rows)


class OrderedSum(ReduceScatter):
    """A reduce-scatter that adds the parts of the ranks as a binary tree in the order of the ranks.

    Rank r of W holds part jW + r in round j, and `Pairwise` adds the rounds. Then every number of ranks that is a power
    of two adds all parts in the same tree: the sums are equal in every bit.
    """

    def allocate(self, size: Sequence[int | torch.SymInt], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: dist.ProcessGroup, op: Any, async_op: bool = False
    ) -> None:
        received = torch.empty_like(input_tensor)
        dist.all_to_all_single(received, input_tensor, group=group)
        output_tensor.copy_(tree_sum(list(received.view(group.size(), -1).unbind())))


def tree_sum(parts: list[Tensor]) -> Tensor:
    """The sum of the parts, added in place as a binary tree in their order."""
    while len(parts) > 1:
        pairs = [parts[i].add_(parts[i + 1]) for i in range(0, len(parts) - 1, 2)]
        parts = pairs + parts[len(parts) - len(parts) % 2 :]
    return parts[0]


class Pairwise:
    """Sums of lists of tensors, added as a binary tree over the order in which they come.

    Holds at most log₂ of their number of lists. Tensors that are added belong to it.
    """

    def __init__(self) -> None:
        self._sums: list[tuple[int, list[Tensor]]] = []
        """Sums with the number of lists in each: falling powers of two."""

    def add(self, values: list[Tensor]) -> None:
        count = 1
        while self._sums and self._sums[-1][0] == count:
            values = add_all(self._sums.pop()[1], values)
            count *= 2
        self._sums.append((count, values))

    def total(self) -> list[Tensor]:
        """The sum of all lists, with no negative zeros: which ranks added nothing cannot be seen from it."""
        values = self._sums.pop()[1]
        while self._sums:
            values = add_all(self._sums.pop()[1], values)
        return [value.add_(0.0) for value in values]


def add_all(left: list[Tensor], right: list[Tensor]) -> list[Tensor]:
    return [one.add_(other) for one, other in zip(left, right, strict=True)]


@torch.no_grad()
def row_squares(value: Tensor) -> Tensor:
    """[rows] the sum of squares of every row of a spread tensor, in float64, on every process.

    A row lies on one process, and its halves are added elementwise, because the order of torch's own sums may depend on
    the number of rows. So the values do not depend on the number of processes.
    """
    own = local(value).double().square()
    own = own.reshape(len(own), math.prod(own.shape[1:]))
    while (width := own.shape[1]) > 1:
        own = torch.cat([own[:, : width // 2] + own[:, width // 2 : width // 2 * 2], own[:, width // 2 * 2 :]], 1)
    own = own.flatten()
    if not isinstance(value, DTensor):
        return own
    return whole(DTensor.from_local(own, value.device_mesh, value.placements, shape=value.shape[:1], stride=(1,)))
