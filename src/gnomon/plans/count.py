"""Memory and time of tensor operations, counted on the meta device: shapes alone, and no numbers."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from gnomon.plans.devices import LARGE, Device

__all__ = ["RETURNED", "Count", "bytes_of"]

MAPPED = 2**22
"""Smaller tensors are assumed to use memory that the C library has kept."""
RETURNED = 2**25
"""glibc returns the memory of larger tensors to the system when they are freed. It keeps that of smaller ones."""
FUNCTIONS = ("exp", "log", "softmax", "tanh", "sigmoid", "silu", "gelu", "sin", "cos", "pow", "erf")
"""Parts of the names of operations that compute a function of every number."""
PICKING = ("embedding", "gather", "index", "index_select")
"""Operations that read of their inputs as much as they return."""


class Count(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A context that counts what the operations inside it would need on a device.

    An operation takes the device's time per operation, and beside it the longer of two times: that of its products, and
    that of reading its inputs and writing its outputs. On a CPU a product takes the sum of three times: those of its
    operations, of putting its factors into another order, and of its result, and more for a factor of `LARGE` bytes.
    Memory is that of the tensors which are alive. A tensor of `MAPPED` bytes or more also takes the time in which new
    memory is mapped.
    """

    def __init__(self, device: Device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.device = device
        self.operations = 0
        self.seconds = 0.0
        """Without the time per operation."""
        self.flops = 0
        """Floating-point operations of products; a multiplication with its addition is two."""
        self.peak = 0
        """Most bytes of tensors made inside that were alive together."""
        self.small = 0
        """`peak` of tensors of at most `RETURNED` bytes."""
        self.large = 0
        """`peak` of larger tensors."""
        self._live = [0, 0]
        self._held: set[int] = set()
        self._calls: dict[Hashable, tuple[Any, ...]] = {}
        """Shape, strides and type of the one tensor that an operation has made, its seconds and its `flops`."""

    @property
    def time(self) -> float:
        """Seconds of all operations."""
        return self.seconds + self.operations * self.device.per_operation

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if composite(function):  # In inference mode, a linear layer and other operations made of several arrive whole.
            with self:
                return function.decompose(*args, **kwargs)
        self.operations += 1
        call = None if function.is_view or function._schema.is_mutable else form((function, args, kwargs))
        if call is not None and call in self._calls:
            shape, stride, dtype, seconds, flops = self._calls[call]
            out = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
            self._hold(out)
            self.seconds += seconds
            self.flops += flops
            return out
        out = function(*args, **kwargs)
        if function.is_view:
            return out
        outputs, inputs = list(tensors(out)), {tensor.untyped_storage()._cdata for tensor in tensors((args, kwargs))}
        new = [tensor for tensor in outputs if tensor.untyped_storage()._cdata not in inputs]
        for tensor in new:
            self._hold(tensor)
        seconds, flops = self._cost(function, args, kwargs, outputs, out)
        self.seconds += seconds
        self.flops += flops
        if call is not None and isinstance(out, Tensor) and new and out.untyped_storage().nbytes() == bytes_of(new):
            self._calls[call] = out.shape, out.stride(), out.dtype, seconds, flops
        return out

    def _cost(self, function: Any, args: Any, kwargs: Any, outputs: Sequence[Tensor], out: Any) -> tuple[float, int]:
        """Seconds and floating-point operations."""
        picks = function.overloadpacket.__name__ in PICKING
        size = 2 * bytes_of(outputs) if picks else bytes_of([*tensors((args, kwargs)), *outputs])
        seconds = self.device.moving(size)
        if any(word in function._schema.name for word in FUNCTIONS):
            seconds += sum(tensor.numel() for tensor in outputs) * self.device.per_function
        formula = operations_of(function)
        if formula is None:
            return seconds, 0
        work = formula(*args, **kwargs, out_val=out)
        products = work / self.device.rate(outputs[0].dtype)
        if self.device.reordering:
            written_to = {tensor.untyped_storage()._cdata for tensor in outputs}  # In place, or new.
            factors, result, large = 0, bytes_of(outputs), 0
            for tensor in tensors((args, kwargs)):
                if tensor.untyped_storage()._cdata in written_to:
                    result += bytes_of([tensor])
                    continue
                factors += bytes_of([tensor])
                large += bytes_of([tensor]) if bytes_of([tensor]) >= LARGE else 0
            seconds = products + factors / self.device.reordering + self.device.moving(result)
            return seconds + large * self.device.per_large_byte, work
        return max(seconds, products), work

    def _hold(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        name, size = storage._cdata, storage.nbytes()
        if name not in self._held:
            self._held.add(name)
            self._live[size > RETURNED] += size
            small, large = self._live
            self.small, self.large = max(self.small, small), max(self.large, large)
            self.peak = max(self.peak, small + large)
            if size >= MAPPED:
                self.seconds += size * self.device.per_mapped_byte
            weakref.finalize(storage, self._free, name, size)

    def _free(self, name: int, size: int) -> None:
        self._held.discard(name)
        self._live[size > RETURNED] -= size


def operations_of(function: Any) -> Callable[..., int] | None:
    """What counts the floating-point operations of a product, in place or not; None for other operations."""
    packet = function.overloadpacket
    formula: Callable[..., int] | None = flop_registry.get(packet)
    return formula or flop_registry.get(getattr(torch.ops.aten, packet.__name__.removesuffix("_"), None))


@cache
def composite(function: Any) -> bool:
    """Whether an operation is made of others."""
    kind = torch._C.DispatchKey.CompositeImplicitAutograd
    return kind in function.py_kernels or torch._C._dispatch_has_kernel_for_dispatch_key(function.name(), kind)


def form(value: Any) -> Hashable | None:
    """What the result of an operation follows from; None if that may be the numbers of a tensor."""
    if isinstance(value, Tensor):
        return None if value.device.type != "meta" else (value.shape, value.stride(), value.dtype)
    if isinstance(value, (tuple, list)):
        parts = tuple(map(form, value))
        return None if None in parts else parts
    if isinstance(value, dict):
        return form(tuple(value.items()))
    return (type(value), value)


def bytes_of(values: Iterable[Tensor]) -> int:
    return sum(value.numel() * value.itemsize for value in values)


def tensors(values: Any) -> Iterator[Tensor]:
    """Those on the meta device: layouts are made on the CPU and are small."""
    return (value for value in tree_leaves(values) if isinstance(value, Tensor) and value.device.type == "meta")
