"""Texts as a trie: every distinct prefix stands in it once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

__all__ = ["Trie", "common_length", "reading_order"]

Places = np.ndarray
"""int64 indices."""


class Trie:
    """The distinct tokens of texts, laid end to end: what a text shares with one before it is not laid again.

    Args:
        texts: [L] token ids each, L at least 1.
        least: fewest tokens; where there are fewer, a text that means nothing is laid behind them. It repeats a token
            of the texts: the gradient of some models is not finite where the embedding of a token is zero, as that of
            a padding token is.
    """

    def __init__(self, texts: Sequence[Tensor], least: int = 0) -> None:
        self.paths: list[Places] = [np.empty(0, dtype=np.int64)] * len(texts)
        """For every text, [L] where its tokens stand."""
        self.branches: list[tuple[Places, int]] = []
        """The texts that brought new tokens, in the order in which these lie: the path, and how much of it is old."""
        new: list[Tensor] = []
        last: int | None = None
        for at in reading_order(texts):
            old = 0 if last is None else common_length(texts[last], texts[at])
            before = self.paths[at][:0] if last is None else self.paths[last][:old]
            self.paths[at] = self._lay(before, len(texts[at]) - old)
            new.append(texts[at][old:])
            last = at
        if (spare := least - len(self)) > 0:
            self._lay(np.empty(0, dtype=np.int64), spare)
            new.append(new[0][:1].clamp(min=0).expand(spare))  # A negative id names an image.
        self.ids = torch.cat(new)
        """[T] tokens."""
        self.positions = torch.from_numpy(np.concatenate([np.arange(old, len(path)) for path, old in self.branches]))
        """[T] how many tokens stand before each in its text."""

    def __len__(self) -> int:
        """T."""
        return sum(len(path) - old for path, old in self.branches)

    def _lay(self, before: Places, count: int) -> Places:
        """The path of a text that goes on from another with `count` tokens of its own."""
        start = len(self)
        path = np.concatenate([before, np.arange(start, start + count)])
        if count:
            self.branches.append((path, len(before)))
        return path


def reading_order(texts: Sequence[Tensor]) -> list[int]:
    """Places of the texts in the order of a dictionary.

    What a text shares with any before it, it shares with the one just before it; equal texts keep their order.
    """
    keys = [text.cpu().numpy().astype(">i8").tobytes() for text in texts]
    return sorted(range(len(texts)), key=keys.__getitem__)


def common_length(one: Tensor, other: Tensor) -> int:
    """Tokens that two texts begin with alike."""
    most = min(len(one), len(other))
    different = (one[:most] != other[:most]).numpy()
    return int(np.argmax(different)) if different.any() else most
