"""Gumbel noise addressed by rollout and position, so that a sample does not depend on its batch mates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

__all__ = ["Noise", "gumbel", "sampled"]

AHEAD = 2**12
"""Numbers that a stream draws at a time, or one position's where those are more."""
CHUNK = 2**18
"""Most numbers that are made into noise together: a few MiB, however many rows and however large the vocabulary."""


class Noise:
    """The stream of one rollout; position t reads the t-th run of `vocabulary` uniform numbers.

    Uniforms have 53 bits, so no token is ever drawn for want of resolution.
    """

    def __init__(self, key: bytes, vocabulary: int) -> None:
        self._stream = np.random.Generator(np.random.Philox(key=np.frombuffer(key, dtype="<u8")))
        self._shape = (max(1, AHEAD // vocabulary), vocabulary)
        self._drawn, self._place = np.empty((0, vocabulary)), 0

    def next(self) -> np.ndarray:
        """[vocabulary] uniform numbers of the next position, float64."""
        if self._place == len(self._drawn):
            self._drawn, self._place = self._stream.random(self._shape), 0
        self._place += 1
        return self._drawn[self._place - 1]  # type: ignore[no-any-return]


def gumbel(uniform: Tensor) -> Tensor:
    """Gumbel noise from uniform numbers, which it overwrites."""
    return uniform.clamp_min_(2.0**-54).log_().neg_().log_().neg_()


def sampled(logp: Tensor, noise: Sequence[Noise]) -> Tensor:
    """[B] a token of every row of log-probabilities [B, vocabulary].

    Adding Gumbel noise and taking the argmax samples from them (Gumbel-max; Maddison et al. 2014, arXiv 1411.0030),
    and two policies that are close agree on most tokens. The noise is made for a few rows at a time.
    """
    rows = max(1, CHUNK // logp.shape[1])
    found = []
    for start in range(0, len(noise), rows):
        uniform = torch.from_numpy(np.stack([row.next() for row in noise[start : start + rows]]))
        found.append((gumbel(uniform).to(logp.device) + logp[start : start + rows]).argmax(-1))
    return torch.cat(found)
