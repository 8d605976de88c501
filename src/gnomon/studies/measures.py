"""What a study measures of a run: functions of a reader that return one number."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any

from gnomon.store import RunReader

__all__ = ["Measure", "final", "final_length", "gain", "last_steps", "metric", "pass_at"]

Measure = Callable[[RunReader], float]


def final(reader: RunReader) -> float:
    """Held-out pass@1 after training, 0 to 1."""
    assert reader.held_out is not None
    return pass_at_1(reader.held_out)


def pass_at(k: int) -> Measure:
    """Held-out pass@k after training; the run must estimate it (`eval.pass_at`)."""

    def measure(reader: RunReader) -> float:
        assert reader.held_out is not None
        return float(reader.held_out["pass_at"][str(k)]["value"])

    return measure


def final_length(reader: RunReader) -> float:
    """Mean tokens of a held-out reply after training."""
    assert reader.held_out is not None
    return float(reader.held_out["length"])


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
