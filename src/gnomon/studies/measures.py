"""What a study measures of a run: functions of a reader that return one number."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any

from gnomon.store import RunReader

__all__ = ["Measure", "final", "gain", "last_steps", "metric"]

Measure = Callable[[RunReader], float]


def final(reader: RunReader) -> float:
    """Held-out pass@1 after training, 0 to 1."""
    assert reader.held_out is not None
    return pass_at_1(reader.held_out)


def gain(reader: RunReader) -> float:
    """Held-out pass@1 after training less that before it."""
    assert reader.baseline is not None
    return final(reader) - pass_at_1(reader.baseline)


def pass_at_1(evaluation: Mapping[str, Any]) -> float:
    return float(evaluation["pass_at"]["1"]["value"])


def last_steps(name: str, count: int = 10) -> Measure:
    """The mean of a step's metric over the last steps."""

    def measure(reader: RunReader) -> float:
        return statistics.fmean(step["metrics"][name] for step in reader.metrics()[-count:])

    return measure


def metric(name: str, step: int) -> Measure:
    """A metric of one step, counted from 0; negative from the end."""
    return lambda reader: float(reader.metrics()[step]["metrics"][name])
