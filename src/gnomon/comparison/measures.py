"""What a study measures: every measure takes the reader of a run and returns one number."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gnomon.comparison.bits import reward_bits
from gnomon.store import RunReader

__all__ = [
    "Measure", "at_flops", "at_step", "at_tokens", "bits", "final", "final_length", "final_of", "gain", "gain_of",
    "last_steps", "metric", "pass_at",
]  # fmt: skip

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


def at_tokens(count: int) -> Measure:
    """Held-out pass@1 when so many tokens had been sampled for training, for a budget of equal tokens.

    Between two evaluations it is the straight line between them.
    Raises: ValueError for a run that sampled fewer.
    """
    return lambda reader: at_spent(reader, count, [float(m["metrics"]["tokens"]) for m in reader.metrics()], "tokens")


def at_flops(count: float) -> Measure:
    """Held-out pass@1 when sampling and training had taken so many floating-point operations; as `at_tokens`.

    The operations are computed from the recorded tokens and the shape of the model (`gnomon.plans.flops`).
    Raises: ValueError for a run that took fewer.
    """

    def measure(reader: RunReader) -> float:
        from gnomon.plans.flops import step_flops

        return at_spent(reader, count, [each.total for each in step_flops(reader)], "operations")

    return measure


def at_spent(reader: RunReader, count: float, steps: Sequence[float], what: str) -> float:
    """Held-out pass@1 when the steps had spent so much. Args: steps: what each step spent."""
    totals = [0.0, *itertools.accumulate(steps)]
    points = [(totals[step], value) for step, value in curve(reader)]
    for (before, low), (after, high) in itertools.pairwise(points):
        if before <= count <= after:
            return low + (high - low) * (count - before) / (after - before) if after > before else high
    raise ValueError(f"the run took {totals[-1]:.6g} {what}, fewer than {count:.6g}")


def at_step(step: int) -> Measure:
    """Held-out pass@1 after so many steps, for a budget of equal updates. Raises: ValueError where none was taken."""

    def measure(reader: RunReader) -> float:
        rates = dict(curve(reader))
        if step not in rates:
            raise ValueError(f"pass@1 was not measured after {step} steps, but after {', '.join(map(str, rates))}")
        return rates[step]

    return measure


def curve(reader: RunReader) -> list[tuple[int, float]]:
    """Steps taken and held-out pass@1, of every evaluation in order."""
    assert reader.baseline is not None
    later = [(record.step, pass_at_1(record.body)) for record in reader.records(kind="evaluation")]
    return [(0, pass_at_1(reader.baseline)), *((step, value) for step, value in later if step is not None)]


def gain(reader: RunReader) -> float:
    """Held-out pass@1 after training less that before it."""
    assert reader.baseline is not None
    return final(reader) - pass_at_1(reader.baseline)


def final_of(name: str) -> Measure:
    """Pass@1 of an evaluation set after training. Args: name: of the set; empty for the main evaluation."""
    return lambda reader: pass_at_1(reader.evaluations(name)[-1].body)


def gain_of(name: str) -> Measure:
    """Pass@1 of an evaluation set after training less that before it: what training on other tasks added or took."""

    def measure(reader: RunReader) -> float:
        records = reader.evaluations(name)
        return pass_at_1(records[-1].body) - pass_at_1(records[0].body)

    return measure


def pass_at_1(evaluation: Mapping[str, Any]) -> float:
    return float(evaluation["pass_at"]["1"]["value"])


def bits(count: int = 10) -> Measure:
    """Entropy of the rewards of a step, in bits per episode: the mean over the last steps.

    It is that of the observed frequencies, which is too small by about (m − 1)/(2·n·ln 2) bits for m different rewards
    among n episodes.
    """
    return lambda reader: statistics.fmean(each.bits for each in reward_bits(reader)[-count:])


def last_steps(name: str, count: int = 10) -> Measure:
    """The mean of a step's metric over the last steps."""

    def measure(reader: RunReader) -> float:
        return statistics.fmean(step["metrics"][name] for step in reader.metrics()[-count:])

    return measure


def metric(name: str, step: int) -> Measure:
    """A metric of one step, counted from 0; negative from the end."""
    return lambda reader: float(reader.metrics()[step]["metrics"][name])
