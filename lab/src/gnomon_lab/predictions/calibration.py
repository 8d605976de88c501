"""How well somebody's probabilities agree with what happened, over all their runs.

Questions about one run depend on each other, so scores are averaged over the questions of a run first, then over runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from gnomon.stats import Interval as Rate
from gnomon.stats import mean_interval
from gnomon_lab.predictions.outcome import Answer, Scored
from gnomon_lab.predictions.questions import Beats, Interval, Reaches
from gnomon_lab.predictions.scores import brier, log_score

__all__ = ["BINS", "FEW", "Bin", "Calibration", "calibrations"]

BINS = 5
"""Most bins of a calibration curve."""
FEW = 20
"""Events below which no curve is drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Events of similar probability."""

    stated: float
    """Mean stated probability."""
    happened: Rate
    """Fraction that happened, with its Wilson interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Of one person."""

    by: str
    runs: int
    """Runs with a resolved question."""
    events: int
    """Resolved questions with a probability."""
    states: Mapping[str, int]
    """Questions by what became of them: `resolved`, `open`, `void`."""
    left_out: Mapping[str, str]
    """Runs whose prediction counts for nothing, and why."""
    brier: float | None
    log: float | None
    base_rate: float | None
    """Fraction of the events that happened, the mean over runs."""
    skill: float | None
    """1 − Brier / Brier of always stating the base rate. The base rate is known only afterwards."""
    bins: tuple[Bin, ...]
    """Empty for fewer than `FEW` events."""
    coverage: Mapping[str, Rate]
    """By level of the intervals, the fraction that held the value."""

    def body(self) -> dict[str, Any]:
        return asdict(self)


def calibrations(found: Iterable[tuple[Path, Scored | str]], by: str = "") -> list[Calibration]:
    """One for each person, by name. Args: by: this person only."""
    people: dict[str, list[Scored]] = {}
    left_out: dict[str, str] = {}
    for folder, scored in found:
        if isinstance(scored, str):
            left_out[str(folder)] = scored
        elif by in ("", scored.prediction.by):
            people.setdefault(scored.prediction.by, []).append(scored)
    return [calibration(name, people[name], left_out) for name in sorted(people)]


def calibration(by: str, scored: Sequence[Scored], left_out: Mapping[str, str]) -> Calibration:
    answers = [answer for each in scored for answer in each.answers]
    states = {name: sum(answer.state == name for answer in answers) for name in ("resolved", "open", "void")}
    runs = [pairs for each in scored if (pairs := events(each.answers))]
    base = average([[float(happened) for _, happened in pairs] for pairs in runs])
    ours = average([[brier(p, happened) for p, happened in pairs] for pairs in runs])
    usual = None if base is None else average([[brier(base, happened) for _, happened in pairs] for pairs in runs])
    every = [pair for pairs in runs for pair in pairs]
    return Calibration(
        by=by,
        runs=sum(any(answer.state == "resolved" for answer in each.answers) for each in scored),
        events=len(every),
        states=states,
        left_out=left_out,
        brier=ours,
        log=average([[log_score(p, happened) for p, happened in pairs] for pairs in runs]),
        base_rate=base,
        skill=1.0 - ours / usual if usual and ours is not None else None,
        bins=make_bins(every) if len(every) >= FEW else (),
        coverage=coverage(answers),
    )


def events(answers: Iterable[Answer]) -> list[tuple[float, bool]]:
    """Stated probability of each resolved event, and whether it happened."""
    return [
        (answer.question.probability, answer.happened)
        for answer in answers
        if isinstance(answer.question, Reaches | Beats) and answer.happened is not None
    ]


def average(runs: Sequence[Sequence[float]]) -> float | None:
    """Mean over runs of the mean over the questions of each; None without any."""
    means = [math.fsum(values) / len(values) for values in runs]
    return math.fsum(means) / len(means) if means else None


def make_bins(pairs: Sequence[tuple[float, bool]]) -> tuple[Bin, ...]:
    """At most `BINS` bins of equal count. Equal probabilities share a bin, that of their middle rank."""
    ordered = sorted(pairs)
    bins: dict[int, list[tuple[float, bool]]] = {}
    rank = 0
    for _, same in groupby(ordered, key=itemgetter(0)):
        together = list(same)
        middle = rank + (len(together) - 1) // 2
        bins.setdefault(middle * BINS // len(ordered), []).extend(together)
        rank += len(together)
    return tuple(
        Bin(
            stated=math.fsum(stated for stated, _ in inside) / len(inside),
            happened=mean_interval([float(happened) for _, happened in inside]),
        )
        for inside in bins.values()
    )


def coverage(answers: Iterable[Answer]) -> dict[str, Rate]:
    """Of the resolved intervals, by level."""
    inside: dict[float, list[float]] = {}
    for answer in answers:
        if isinstance(answer.question, Interval) and answer.happened is not None:
            inside.setdefault(answer.question.level, []).append(float(answer.happened))
    return {f"{level:g}": mean_interval(values) for level, values in sorted(inside.items())}
