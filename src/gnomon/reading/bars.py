"""A curve as one line of text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

__all__ = ["spark"]

BARS = "▁▂▃▄▅▆▇█"


def spark(values: Sequence[float], width: int = 24) -> str:
    """A line of bars from the least to the largest value, averaged down to a width."""
    if not values:
        return ""
    cells = min(width, len(values))
    edges = [i * len(values) // cells for i in range(cells + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    low, high = min(means), max(means)
    return "".join(BARS[round((v - low) / (high - low) * 7)] if high > low else BARS[0] for v in means)
