"""Gumbel noise addressed by rollout and position, so that a sample does not depend on its batch mates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor

from gnomon.engines import philox
from gnomon.models.kernels import compiles

__all__ = ["Noise", "gumbel", "rows_at_once", "sample_tokens"]

AHEAD = 2**12
"""Numbers that a stream draws at a time on a CPU, or one position's where those are more."""
CHUNK = 2**18
"""Most numbers that are made into noise together on a CPU: a few MiB, however many rows and however many tokens."""
DEVICE_CHUNK = 2**24
"""As `CHUNK`, on another device: enough for all of its cores, in some 400 MiB."""


class Noise:
    """The stream of one rollout; position t reads the t-th run of `vocabulary` uniform numbers.

    Uniforms have 53 bits, so no token is ever drawn for want of resolution. On a CPU NumPy makes them, which is faster
    than torch there; elsewhere they are made on the device, and are the same in every bit.
    """

    def __init__(self, key: bytes, vocabulary: int) -> None:
        self._words = np.frombuffer(key, dtype="<u8")
        self._pair: list[int] = self._words.view("<i8").tolist()
        self._stream = np.random.Generator(np.random.Philox(key=self._words))
        self._shape = (max(1, AHEAD // vocabulary), vocabulary)
        self._ahead: list[np.ndarray] = []
        self._position = 0

    def next(self) -> np.ndarray:
        """[vocabulary] uniform numbers of the next position, float64."""
        if not self._ahead:
            self._ahead = list(self._stream.random(self._shape)[::-1])
        return self._ahead.pop()

    def place(self) -> tuple[list[int], int]:
        """The key as two int64 words, and how many numbers of the stream are before the next position, which passes."""
        self._position += 1
        return self._pair, (self._position - 1) * self._shape[1]


def gumbel(uniform: Tensor) -> Tensor:
    """Gumbel noise from uniform numbers, which it overwrites."""
    return uniform.clamp_min_(2.0**-54).log_().neg_().log_().neg_()


def sample_tokens(logp: Tensor, noise: Sequence[Noise]) -> Tensor:
    """[B] a token of every row of log-probabilities [B, vocabulary].

    Adding Gumbel noise and taking the argmax samples from them (Gumbel-max; Maddison et al. 2014, arXiv 1411.0030),
    and two policies that are close agree on most tokens. The noise is made for a few rows at a time. The uniform
    numbers are the same on every device; their logarithms, in float64, may differ in the last bit.
    """
    if logp.is_cuda and (draw := by_kernel("sample_tokens")):
        return draw(*places(noise, logp.device), logp)
    rows = rows_at_once(logp.shape[1], logp.device)
    tokens = []
    for start in range(0, len(noise), rows):
        some = noise[start : start + rows]
        tokens.append((gumbel(uniform(some, logp.shape[1], logp.device)) + logp[start : start + rows]).argmax(-1))
    return torch.cat(tokens)


def rows_at_once(vocabulary: int, device: torch.device) -> int:
    """How many rows' noise is made together."""
    return max(1, (CHUNK if device.type == "cpu" else DEVICE_CHUNK) // vocabulary)


def uniform(noise: Sequence[Noise], vocabulary: int, device: torch.device) -> Tensor:
    """[B, vocabulary] uniform numbers of every stream's next position, float64, made on the device."""
    if device.type == "cpu":
        return torch.from_numpy(np.stack([row.next() for row in noise]))
    fill = (device.type == "cuda" and by_kernel("uniform")) or philox.uniform
    return fill(*places(noise, device), vocabulary)


def places(noise: Sequence[Noise], device: torch.device) -> tuple[Tensor, Tensor]:
    """[B, 2] words of every stream's key, and [B] how many numbers are before its next position, which passes."""
    keys, starts = zip(*(row.place() for row in noise), strict=True)
    return torch.tensor(keys, device=device), torch.tensor(starts, device=device)


@cache
def by_kernel(name: str) -> Callable[..., Tensor] | None:
    """A function of `philox_kernel`; None where no kernel can be compiled: other operations make the same numbers."""
    if not compiles():
        return None
    from gnomon.engines import philox_kernel

    key, start = (torch.zeros(shape, dtype=torch.int64, device="cuda") for shape in ((1, 2), (1,)))
    try:
        philox_kernel.uniform(key, start, 1)
        philox_kernel.sample_tokens(key, start, torch.zeros(1, 1, device="cuda"))
    except Exception:  # Whatever the compiler or the driver lacks.
        return None
    kernel: Callable[..., Tensor] = getattr(philox_kernel, name)
    return kernel
