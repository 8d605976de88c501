"""Gumbel noise addressed by rollout and position, so that a sample does not depend on its batch mates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

__all__ = ["Noise"]


class Noise:
    """One stream per rollout; position t reads the t-th run of `vocabulary` numbers.

    Adding it to log-probabilities and taking the argmax samples from them (Gumbel-max; Maddison et
    al. 2014, arXiv 1411.0030), and two policies that are close agree on most tokens. Uniforms have 53 bits,
    so no token is ever drawn for want of resolution.
    """

    def __init__(self, keys: Sequence[bytes], vocabulary: int) -> None:
        words = [np.frombuffer(key, dtype="<u8") for key in keys]
        self.streams = [np.random.Generator(np.random.Philox(key=word)) for word in words]
        self.vocabulary = vocabulary
        self.ahead = max(1, 4096 // vocabulary)
        """Positions drawn at a time; the numbers do not depend on it."""
        self.drawn = torch.empty(len(keys), 0, vocabulary, dtype=torch.float64)
        self.place = 0

    def next(self) -> Tensor:
        """[rows, vocabulary] noise of the next position, float64."""
        if self.place == self.drawn.shape[1]:
            shape = (self.ahead, self.vocabulary)
            uniform = torch.from_numpy(np.stack([stream.random(shape) for stream in self.streams]))
            self.drawn = uniform.clamp_min_(2.0**-54).log_().neg_().log_().neg_()
            self.place = 0
        self.place += 1
        return self.drawn[:, self.place - 1]

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these rows only."""
        self.streams = [self.streams[row] for row in rows]
        self.drawn = self.drawn[list(rows)]
