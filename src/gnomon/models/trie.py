"""Prefixes that texts share: an order in which they stand together, and how far two of them go together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

__all__ = ["reading_order", "shared"]


def reading_order(texts: Sequence[Tensor]) -> list[int]:
    """Places of the texts in the order of a dictionary.

    What a text shares with any before it, it shares with the one just before it; equal texts keep their order.
    """
    keys = [text.numpy().astype(">i8").tobytes() for text in texts]
    return sorted(range(len(texts)), key=keys.__getitem__)


def shared(one: Tensor, other: Tensor) -> int:
    """Tokens that two texts begin with alike."""
    most = min(len(one), len(other))
    different = one.numpy()[:most] != other.numpy()[:most]
    return int(np.argmax(different)) if different.any() else most
