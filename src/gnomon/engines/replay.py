"""Passes of decoding as a CUDA graph: the device repeats one without Python, which takes longer than the kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from gnomon.models.decode import Decode
from gnomon.models.policy import Policy

__all__ = ["Replay", "captured"]

Pass = Callable[[], Tensor]


class Replay:
    """The passes of one running batch. A pass of the same shape as the one before is captured, and then replayed.

    A replay runs the kernels of the pass that was captured, on the same memory, so it computes the same bits. What
    differs between such passes is copied into the tensors that the graph reads. Passes that begin a prompt or a row
    are never captured. A model that cannot be captured, since its kernels depend on values, is not tried again.
    """

    def __init__(self, policy: Policy, layout: Decode, capture: Callable[[Pass], Pass]) -> None:
        self._policy, self._layout, self._capture = policy, layout, capture
        self._shape: tuple[int, ...] | None = None
        self._read: list[Tensor] = []
        """The tensors that the captured pass reads."""
        self._run: Pass | None = None
        self._possible = True
        self.count = 0
        """Passes that were replayed."""

    def hidden(self, ids: Tensor) -> Tensor:
        """Last hidden states [T, size] of the tokens of a pass that the layout follows."""
        shape = self._layout.shape if self._possible else None
        if shape is None or shape != self._shape:
            self._shape, self._run = shape, None
            return self._policy.hidden(ids, self._layout)
        values = [ids, *self._layout.moving]
        if self._run is None:
            self._read = [value.clone() for value in values]
            self._layout.moving = self._read[1:]
            try:
                self._run = self._capture(lambda: self._policy.hidden(self._read[0], self._layout))
            except RuntimeError:
                self._possible = False
                return self._policy.hidden(ids, self._layout)
        else:
            torch._foreach_copy_(self._read, values)
        self.count += 1
        return self._run()


def captured(work: Pass) -> Pass:
    """A function that computes what `work` does from the values that its tensors then have. It returns one tensor,
    which it overwrites every time.

    Raises: RuntimeError if `work` reads a value of the device or copies from pageable memory.
    """
    stream = beside()
    stream.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        work()  # Libraries take their workspace for the stream before the capture.
        torch.cuda.synchronize()
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            found = work()
        finally:
            graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)

    def run() -> Tensor:
        graph.replay()
        return found

    return run


@cache
def beside() -> torch.cuda.Stream:
    """The stream on which passes are captured."""
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]
