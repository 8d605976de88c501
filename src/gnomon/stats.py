"""Mergeable statistics, and confidence intervals of rates. No code makes decisions by the name of a metric."""

from __future__ import annotations

import math
import statistics
from array import array
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

__all__ = [
    "At",
    "Interval",
    "Max",
    "Mean",
    "Quantile",
    "Stat",
    "Sum",
    "difference_interval",
    "mean_interval",
    "merge",
    "pass_at_k",
]


@dataclass(frozen=True, slots=True)
class Sum:
    value: float

    def __add__(self, other: Sum) -> Sum:
        return Sum(self.value + other.value)


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean with its weight, so that means of unequal weights merge correctly."""

    total: float
    weight: float = 1.0

    def __add__(self, other: Mean) -> Mean:
        return Mean(self.total + other.total, self.weight + other.weight)

    @property
    def value(self) -> float:
        return self.total / self.weight if self.weight else math.nan


@dataclass(frozen=True, slots=True)
class Max:
    value: float

    def __add__(self, other: Max) -> Max:
        """The larger value. NaN wins, so that a merge cannot hide it."""
        return self if math.isnan(self.value) or self.value >= other.value else other


@dataclass(frozen=True, slots=True)
class At:
    """What stands at the maximum of something else."""

    most: float
    value: float

    def __add__(self, other: At) -> At:
        return self if math.isnan(self.most) or self.most >= other.most else other


@dataclass(frozen=True, slots=True)
class Quantile:
    """The smallest value that at least this share of the values does not exceed."""

    values: array[float]
    share: float

    def __add__(self, other: Quantile) -> Quantile:
        return Quantile(self.values + other.values, self.share)

    @property
    def value(self) -> float:
        index = math.ceil(self.share * len(self.values)) - 1
        return sorted(self.values)[max(0, index)] if self.values else math.nan


Stat = Sum | Mean | Max | At | Quantile
Stats = dict[str, Stat]


def merge(a: Stats, b: Stats) -> Stats:
    """Both tables, with equal names added. Adding two kinds under one name is an error."""
    merged = dict(a)
    for name, stat in b.items():
        if name in merged and type(merged[name]) is not type(stat):
            raise TypeError(f"metric {name!r} is a {type(merged[name]).__name__} and a {type(stat).__name__}")
        merged[name] = merged[name] + stat if name in merged else stat  # type: ignore[operator]
    return merged


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate with its 95 % interval."""

    value: float
    low: float
    high: float
    n: int
    """Number of independent units (different tasks) behind it."""

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Unbiased estimate of the chance that one of k samples is correct, from n samples of one task.

    Equation: 1 − C(n−c, k) / C(n, k).
    Source: Chen et al. 2021, arXiv 2107.03374, eq. 1.
    """
    if not 1 <= k <= n:
        raise ValueError(f"pass@{k} needs between 1 and n = {n} samples")
    if not 0 <= correct <= n:
        raise ValueError(f"{correct} correct of n = {n} samples")
    return 1.0 - math.comb(n - correct, k) / math.comb(n, k)


def mean_interval(values: Sequence[float], units: Sequence[Hashable] = ()) -> Interval:
    """Mean of scores in 0 … 1, with a 95 % interval over the units that were scored.

    Equation: Wilson's score interval at the effective sample size m·p(1−p)/s², where s² is the variance of the
    units' mean scores around p, weighted by their numbers of values n_u, and m = (Σ n_u)²/Σ n_u². With units that were
    all scored once, m is their number. With yes-or-no scores too, the interval is Wilson's own; it is
    narrower where each value is itself a mean.
    Args: units: of each value, the unit that was scored, such as the id of a task. Values of one unit are not
        independent. Default: every value has a unit of its own.
    Source: Wilson 1927, JASA 22; m: Kish 1965, Survey Sampling; effective size as in Korn & Graubard 1998.
    """
    n = len(values)
    if n == 0:
        raise ValueError("an interval needs at least one value")
    if not all(0 <= value <= 1 for value in values):
        raise ValueError("an interval of scores outside 0 … 1")
    scores: dict[Hashable, list[float]] = {}
    for unit, value in zip(units or range(n), values, strict=True):
        scores.setdefault(unit, []).append(value)
    p = math.fsum(values) / n
    spread = math.fsum(len(own) * (math.fsum(own) / len(own) - p) ** 2 for own in scores.values()) / n
    m = n * n / sum(len(own) ** 2 for own in scores.values())
    size = m if spread <= 0 else max(m, m * p * (1 - p) / spread)
    z = 1.959963984540054
    centre = (p + z * z / (2 * size)) / (1 + z * z / size)
    half = z / (1 + z * z / size) * math.sqrt(max(p * (1 - p) / size + z * z / (4 * size * size), 0.0))
    return Interval(value=p, low=max(0.0, centre - half), high=min(1.0, centre + half), n=len(scores))


def difference_interval(values: Sequence[float]) -> Interval:
    """Mean of paired differences, one for each unit, with Student's 95 % interval.

    It has no width where all differences are equal, and is the whole line for a single one.

    Equation: d̄ ± t₀.₉₇₅,ₙ₋₁ · s/√n.
    Source: Student 1908, Biometrika 6.
    """
    n, mean = len(values), statistics.fmean(values)
    half = math.inf if n < 2 else t_quantile(n - 1) * statistics.stdev(values) / math.sqrt(n)
    return Interval(value=mean, low=mean - half, high=mean + half, n=n)


@lru_cache
def t_quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t with so many degrees of freedom: the root of its distribution function.

    Equation: P(0 < T < √ν tan φ) = Γ((ν+1)/2) / (√π Γ(ν/2)) · ∫₀^φ cos^(ν−1) θ dθ, by Simpson's rule.
    """
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)

    def chance(angle: float, size: int = 400) -> float:
        weights = (1 if index in (0, size) else 4 if index % 2 else 2 for index in range(size + 1))
        heights = (math.cos(angle * index / size) ** (freedom - 1) for index in range(size + 1))
        area = math.fsum(weight * height for weight, height in zip(weights, heights, strict=True))
        return scale * angle / size / 3 * area

    low, high = 0.0, math.atan(13 / math.sqrt(freedom))  # The quantile is largest for one degree of freedom: 12.7.
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) < 0.475 else (low, middle)
    return math.sqrt(freedom) * math.tan(low)
