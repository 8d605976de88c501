"""Decoding passes as CUDA graphs: starting the kernels from Python takes longer than running them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from threading import get_ident
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from gnomon.models.decode import Decode
from gnomon.models.policy import Policy

__all__ = ["Replay", "Watched", "capture_pass"]

Pass = Callable[[], Tensor]
WAITING = (
    "_grouped_mm", "_local_scalar_dense", "_unique2", "bincount", "equal", "masked_select", "nonzero",
    "repeat_interleave", "unique_consecutive", "unique_dim",
)  # fmt: skip
"""Operations of torch that wait for a value of the device. `_grouped_mm`, the matrix product of a mixture of experts,
waits in dtypes for which the device has no kernel."""
KNOWN = ("aten", "prim", "prims")
"""Namespaces of torch's own operations. Those of other namespaces may wait for a value."""


class Replay:
    """The passes of one running batch. A pass of the same shape as the one before is captured, and then replayed.

    A replay runs the kernels of the pass that was captured, on the same memory, so it computes the same bits. What
    differs between such passes is copied into the tensors that the graph reads. Passes that begin a prompt or a row
    are never captured, nor is any pass of a model that waits for values of the device.
    """

    def __init__(self, policy: Policy, layout: Decode, capture: Callable[[Pass], Pass]) -> None:
        self._policy, self._layout, self._capture = policy, layout, capture
        self._shape: tuple[int, ...] | None = None
        self._read: list[Tensor] = []
        """The tensors that the captured pass reads."""
        self._run: Pass | None = None
        self._possible: bool | None = None
        """Whether passes of the model can be captured; None until a pass was inspected."""
        self.count = 0
        """Passes that were replayed."""

    def hidden(self, ids: Tensor) -> Tensor:
        """Last hidden states [T, size] of the tokens of a pass that the layout follows."""
        shape = None if self._possible is False else self._layout.shape
        if shape is None:  # Later passes may have the shape of the captured one again.
            return self._policy.hidden(ids, self._layout)
        if shape != self._shape:
            self._shape, self._run = shape, None
            return self._policy.hidden(ids, self._layout)
        values = [ids, *self._layout.moving]
        if self._run is None and not self._begin(values):
            return self._policy.hidden(ids, self._layout)
        assert self._run is not None
        torch._foreach_copy_(self._read, values)
        self.count += 1
        return self._run()

    def _begin(self, values: Sequence[Tensor]) -> bool:
        """Capture a pass. Args: values: that it reads. Returns: whether that is possible."""
        self._read = [value.clone() for value in values]
        self._layout.moving = self._read[1:]

        def work() -> Tensor:
            return self._policy.hidden(self._read[0], self._layout)

        if self._possible is None:
            with Watched() as watched:
                work()
            self._possible = not watched.waits
        try:
            self._run = self._capture(work) if self._possible else None
        except RuntimeError:
            self._possible = False
        return self._possible


class Watched(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notices whether this thread's operations wait for a value of the device, or copy from one device to another: a
    graph cannot hold such operations, and a capture that meets one leaves torch's allocator unusable."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.waits = False

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        with self:  # In inference mode, operations made of others arrive whole.
            output = function.decompose(*args, **(kwargs or {}))
        if output is not NotImplemented:
            return output
        output = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        selects = name in ("index", "index_put", "index_put_") and any(
            each is not None and each.dtype in (torch.bool, torch.uint8) for each in args[1]
        )
        places = {each.device for each in (*args, output) if isinstance(each, Tensor)}
        apart = name in ("copy_", "_to_copy") and len(places) > 1
        if name in ("lift_fresh", "detach_"):  # What is seen of torch.tensor, which copies numbers of Python.
            apart = output.device.type != "cpu"
        foreign = function.namespace not in KNOWN
        self.waits = self.waits or name in WAITING or selects or apart or foreign
        return output


def capture_pass(work: Pass) -> Pass:
    """A function that computes what `work` does from the values that its tensors then have. It returns one tensor,
    which it overwrites every time.

    Args: work: has run before with the same shapes, so that its kernels are loaded.
    """
    stream = beside(get_ident())
    stream.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        torch.ones(16, 16, device="cuda").mm(torch.ones(16, 16, device="cuda"))  # cuBLAS takes a workspace once.
        stream.synchronize()
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            output = work()
        finally:
            graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)

    def run() -> Tensor:
        graph.replay()
        return output

    return run


@cache
def beside(thread: int) -> torch.cuda.Stream:
    """The stream on which a thread captures."""
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]
