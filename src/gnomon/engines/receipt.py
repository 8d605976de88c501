"""Whether an update of the weights reached an engine, also one that changes less than the engine's dtype rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from gnomon.errors import NumericsError
from gnomon.models.weights import WeightsRef
from gnomon.stats import Max, Mean, Stats, merge

__all__ = ["Receipt", "Receipts", "Share", "share_of"]

DEVIATIONS = 5.5
"""Standard deviations that decide. A decision is wrong with probability exp(−5.5²/2) = 2.7e-7 at most, if the errors
of the tokens are independent and as likely positive as negative."""
GROWTH = 2.0
"""Factor by which the difference from the learner increases on a token whose weights are not the learner's."""
WHOLE = 0.9
"""Smallest part of the learner's change that counts as all of it."""
PART = 0.01
"""Smallest part of an update, in root mean square of the change of a log-probability, whose absence is looked for."""


class Share(NamedTuple):
    """The part of one change that another one has."""

    value: float
    """Slope of the regression through 0: 1 if the changes are equal, 0 if they have nothing in common."""
    error: float
    """Its standard error."""
    deviations: float
    """By how many standard deviations they agree, under the hypothesis that they have nothing in common."""


class Version(NamedTuple):
    """Log-probabilities of the probe with one version of the weights."""

    number: int
    learner: tuple[float, ...]
    engine: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What the probe shows of one load."""

    version: int
    since: int
    """The version that it is compared with: the last one that was proven to have arrived, or the first one."""
    share: Share
    """Of the learner's change, in the engine's change."""

    @property
    def proven(self) -> bool:
        """Whether the engine changed with the learner, by more than chance."""
        return self.share.deviations >= DEVIATIONS

    @property
    def stats(self) -> Stats:
        """As metrics of a step."""
        return {
            "weights/version": Max(float(self.version)),
            "weights/since": Max(float(self.since)),
            "weights/share": Mean(self.share.value),
            "weights/error": Mean(self.share.error),
            "weights/proven": Mean(float(self.proven)),
        }


class Receipts:
    """Compares the versions that an engine loads, in their order.

    The version that is compared with stays the same until a later one is proven to have arrived. So the changes of
    several small updates add up, and an engine that no update reaches is found in the end.

    Args: rounds: whether the engine's dtype is coarser than the learner's. Rounding may then keep an update away.
    """

    def __init__(self, *, rounds: bool = False) -> None:
        self.rounds = rounds
        self._base: Version | None = None
        """The last one that was proven to have arrived, or the first one."""
        self._last: Version | None = None
        self._stats: Stats = {}

    def check(self, weights: WeightsRef, scored: Sequence[float]) -> Receipt | None:
        """Compare a version that was loaded. Args: scored: the engine's log-probabilities of the probe.

        The version is compared with the last proven one, and with the one that was loaded before it.

        Returns: None where there is nothing to compare: for the first version, and if the learner's log-probabilities
            did not change.
        Raises: NumericsError E201 for an update that did not arrive, or only in part.
        """
        new, old, last = Version(weights.version, tuple(weights.probe_logp), tuple(scored)), self._base, self._last
        if not all(map(math.isfinite, (*new.learner, *new.engine))):
            return None  # The bound of the probe and the learner's own checks judge such numbers.
        if old is None or last is None or len(old.learner) != len(new.learner):
            self._base = self._last = new
            return None
        for before in (old, last):
            if before.learner != new.learner and (why := missing(before, new, rounds=self.rounds)):
                raise refusal(before, new, why)
        self._last = new
        if old.learner == new.learner:
            return None
        receipt = compare_versions(old, new)
        self._stats = merge(self._stats, receipt.stats)
        if receipt.proven:
            self._base = new
        return receipt

    def stats(self) -> Stats:
        """Metrics of the loads since the last call."""
        stats, self._stats = self._stats, {}
        return stats


def share_of(change: Sequence[float], of: Sequence[float]) -> Share:
    """How much of one change, by token, another one has.

    Equation: s = Σ e d / Σ d²; its standard error √Σ d² (e − s d)² / Σ d²; deviations Σ x / √Σ x² with x = c(e) c(d),
        where c limits a change to twice the median of all its tokens, so that no few tokens decide.
    Source: White 1980, Econometrica 48 (standard error under unequal variances); Efron 1969, JASA 64: a sum divided by
        the root of its squares exceeds x with probability exp(−x²/2) at most, for independent symmetric terms.
    """
    whole = math.fsum(d * d for d in of)
    if not whole:
        return Share(math.nan, math.nan, 0.0)
    value = math.fsum(e * d for e, d in zip(change, of, strict=True)) / whole
    rest = math.fsum((d * (e - value * d)) ** 2 for e, d in zip(change, of, strict=True))
    return Share(value, math.sqrt(rest) / whole, deviations(change, of))


def deviations(a: Sequence[float], b: Sequence[float]) -> float:
    both = [x * y for x, y in zip(limit(a), limit(b), strict=True)]
    spread = math.sqrt(math.fsum(x * x for x in both))
    return math.fsum(both) / spread if spread else 0.0


def limit(values: Sequence[float]) -> list[float]:
    """The values, none larger than twice the median of those that are not 0."""
    most = 2 * median([abs(value) for value in values if value] or [0.0])
    return [max(-most, min(most, value)) for value in values]


def missing(old: Version, new: Version, *, rounds: bool) -> str:
    """Why the engine cannot have the new version; empty if it can.

    Where both compute in the same dtype, their differences under two versions are alike. So it is a coin toss at most
    whether a token's difference is twice what it was, and the number of such tokens is binomial. Rounding makes the
    engine's change larger, not smaller, in comparison with what both have in common: so Σ e (e − 0.9 d) is positive.
    Source: Hoeffding 1963, JASA 58: P(k/n ≥ 1/2 + x/√(4n)) ≤ exp(−x²/2); Frisch 1934 (the slopes of the two regressions
        enclose the true one).
    """
    learner, engine = difference(new.learner, old.learner), difference(new.engine, old.engine)
    before, after = difference(old.engine, old.learner), difference(new.engine, new.learner)
    size, count = root_mean_square(learner), len(learner)
    if not any(engine):
        coarse = size <= root_mean_square(before) if rounds else 2 * sum(map(bool, learner)) < count
        return "" if coarse else f"the learner's changed by {size:.2g} nats (root mean square), the engine's did not"
    share, rest = share_of(engine, learner), [e - WHOLE * d for e, d in zip(engine, learner, strict=True)]
    if share.deviations <= -DEVIATIONS or (not rounds and deviations(rest, engine) <= -DEVIATIONS):
        return f"the engine's changed by {share.value:.2g} ± {share.error:.1g} of the learner's change"
    grown = sum(abs(b) > max(GROWTH * abs(a), PART * size) for a, b in zip(before, after, strict=True))
    if rounds or grown < count / 2 + DEVIATIONS * math.sqrt(count) / 2:
        return ""
    return f"on {grown} tokens, the engine's differ from the learner's by more than twice as much as before"


def compare_versions(old: Version, new: Version) -> Receipt:
    share = share_of(difference(new.engine, old.engine), difference(new.learner, old.learner))
    return Receipt(version=new.number, since=old.number, share=share)


def refusal(old: Version, new: Version, why: str) -> NumericsError:
    return NumericsError(
        "E201",
        f"version {new.number} of the weights did not reach the engine, or only in part",
        where=f"version {new.number}, compared with version {old.number}, on {len(new.learner)} tokens of the probe",
        why=f"log-probabilities of the probe: {why}",
        fix="engine.type=embedded",
    )


def difference(a: Sequence[float], b: Sequence[float]) -> list[float]:
    return [x - y for x, y in zip(a, b, strict=True)]


def root_mean_square(values: Sequence[float]) -> float:
    return math.sqrt(math.fsum(value * value for value in values) / len(values))
