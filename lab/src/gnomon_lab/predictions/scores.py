"""Proper scores of forecasts: each is least, in expectation, for somebody who states what they believe.

Source: Gneiting & Raftery 2007, JASA 102. Smaller is better for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

__all__ = ["CLIP", "brier", "interval_score", "log_score", "pinball"]

CLIP = 0.01
"""The log score treats a probability below this as this, and one above 1 − this as 1 − this."""


def brier(probability: float, happened: bool) -> float:
    """(p − y)², 0 to 1. Whoever always states one half gets .25."""
    return (probability - happened) ** 2


def log_score(probability: float, happened: bool) -> float:
    """−ln of the probability of what happened, in nats, at most −ln .01 = 4.61 (`CLIP`)."""
    stated = probability if happened else 1.0 - probability
    return -math.log(min(max(stated, CLIP), 1.0 - CLIP))


def interval_score(low: float, high: float, level: float, value: float) -> float:
    """The width of an interval, and a penalty for a value outside, in the unit of the value.

    Equation: (u − l) + 2/α (l − x)₊ + 2/α (x − u)₊ with α = 1 − level.
    """
    outside = max(low - value, 0.0) + max(value - high, 0.0)
    return high - low + 2.0 / (1.0 - level) * outside


def pinball(quantiles: Mapping[float, float], value: float) -> float:
    """Mean over the stated quantiles of the pinball loss, in the unit of the value.

    Equation: mean over q of (x − z_q)(q − [x < z_q]).
    """
    losses = [(value - stated) * (q - (value < stated)) for q, stated in quantiles.items()]
    return math.fsum(losses) / len(losses)
