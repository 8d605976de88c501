"""Which objective between REINFORCE and maximum likelihood, and beyond, serves a metric best: one number to choose.

An objective that counts successes and gives failures nothing moves the policy by g = s(K)·S̄₊, its update scale times
the mean score of the successes. To first order in a small step a metric M(p) then gains Σ s(K)·A_K, and the square
of the step is Σ s(K)²·B_K, both sums over K = 1 … N and means over prompts:

    A_K = E[P(K|p)·M′(p)·p·ℓ],   B_K = E[P(K|p)·(ℓ + t/K)],   ℓ = |∇log p|²,   t = tr Cov(∇log π(y) | success).

ℓ is the local sensitivity of a prompt: how far a step of unit length moves log p. It differs by prompt, since
∇log p = (1−p)·∇log(p/(1−p)): a prompt that is nearly always solved has hardly any left. `scored_terms` has ℓ and t from
the scores of the successes, without bias. `gain_terms` has them from success counts and two numbers of the whole run:
ℓ = (1−p)²·Λ with one Λ = |∇log(p/(1−p))|² for all prompts, and one t.

With the length of the step chosen well the gain is in proportion to (Σ s·A)²/Σ s²·B, which no scale lifts above
Σ A²/B, the value at s = A/B. A step for one prompt is taken to leave the others as they are.

Source: derived, in the setting of Zheng 2026 (RL2ML), arXiv 2605.30154.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gnomon.objectives.counts import FAMILIES, family_weight, update_scale

__all__ = [
    "Belief",
    "GainTerms",
    "KnownChance",
    "Member",
    "Metric",
    "Posterior",
    "Scored",
    "attainable_gain",
    "best_member",
    "best_scale",
    "family_gains",
    "family_parameters",
    "gain_terms",
    "metric",
    "metric_gain",
    "scored_terms",
]


class Belief(Protocol):
    """What is known of the chance p that a rollout of a prompt succeeds."""

    def moment(self, successes: float, failures: float) -> float:
        """E[p^successes · (1−p)^failures]."""


@dataclass(frozen=True, slots=True)
class KnownChance:
    """A prompt whose chance of success is known."""

    p: float
    """0 < p < 1."""

    def moment(self, successes: float, failures: float) -> float:
        """p^successes · (1−p)^failures."""
        return math.exp(successes * math.log(self.p) + failures * math.log1p(-self.p))


@dataclass(frozen=True, slots=True)
class Posterior:
    """A prompt that was seen to succeed and fail so often, from a flat prior: p ~ Beta(1 + successes, 1 + failures)."""

    successes: int
    failures: int

    def moment(self, successes: float, failures: float) -> float:
        """B(α + successes, β + failures) / B(α, β) of the Beta(α, β) that was seen."""
        won, lost = 1 + self.successes, 1 + self.failures
        return math.exp(_log_beta(won + successes, lost + failures) - _log_beta(won, lost))


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric M of the chance of success, by M′(p)·p = scale·p^successes·(1−p)^failures."""

    name: str
    scale: float
    successes: int
    failures: int


def metric(name: str) -> Metric:
    """`log p`, or `pass@k` for any k ≥ 1.

    Raises: ValueError for any other name.
    """
    if name == "log p":
        return Metric(name=name, scale=1.0, successes=0, failures=0)
    k = name.removeprefix("pass@")
    if k == name or not (k.isascii() and k.isdigit()) or len(k) > 6 or int(k) < 1:
        raise ValueError(f"no metric is called {name!r}; known: 'log p', and pass@k for any k of 1 or more")
    return Metric(name=name, scale=float(k), successes=1, failures=int(k) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class GainTerms:
    """What a success count is worth, K = 0 … N."""

    sensitivity: tuple[float, ...]
    """A_K, what a step of that count adds to the metric, per unit of update scale."""
    noise: tuple[float, ...]
    """B_K, its mean square, per unit of squared update scale; zero at K = 0, where there is no step."""

    @property
    def group(self) -> int:
        """N."""
        return len(self.noise) - 1

    def floor(self) -> GainTerms:
        """The same with what chance made negative taken for zero."""
        return GainTerms(
            sensitivity=tuple(max(0.0, a) for a in self.sensitivity), noise=tuple(max(0.0, b) for b in self.noise)
        )


def gain_terms(beliefs: Mapping[Belief, float], *, group: int, of: Metric, noise: float) -> GainTerms:
    """A_K and B_K of groups to come, averaged over prompts, in units of Λ.

    Equation: A_K = C(N, K)·E[p^K·(1−p)^{N−K}·M′(p)·p·(1−p)²], B_K = C(N, K)·E[p^K·(1−p)^{N−K}·((1−p)² + τ/K)].
    Args: beliefs, of every prompt, with how much it counts, > 0; group, N ≥ 1; of, the metric; noise, τ = t/Λ ≥ 0.
    Raises: ValueError where there is no prompt, or for a group or noise out of range.
    """
    if not beliefs or group < 1 or not 0 <= noise < math.inf:
        raise ValueError("terms need at least one prompt, a group of at least one and a finite noise of at least 0")
    total = math.fsum(beliefs.values())
    sensitivity, square = [0.0], [0.0]
    for count in range(1, group + 1):
        ways, rest = math.comb(group, count), group - count
        worth = (w * b.moment(count + of.successes, rest + of.failures + 2) for b, w in beliefs.items())
        local = (w * b.moment(count, rest + 2) for b, w in beliefs.items())
        chance = (w * b.moment(count, rest) for b, w in beliefs.items())
        sensitivity.append(of.scale * ways * math.fsum(worth) / total)
        square.append(ways * (math.fsum(local) + noise / count * math.fsum(chance)) / total)
    return GainTerms(sensitivity=tuple(sensitivity), noise=tuple(square))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A group of rollouts of one prompt, with what the scores Sᵢ = ∇log π(yᵢ) of its successes add up to."""

    rollouts: int
    """n."""
    successes: int
    """K₀."""
    whole: float
    """|Σ Sᵢ|² over the successes."""
    squares: float
    """Σ |Sᵢ|² over the successes."""


def scored_terms(groups: Sequence[Scored], *, group: int, of: Metric) -> GainTerms:
    """A_K and B_K of groups to come from measured scores, unbiased; chance may make some negative (`floor`).

    Given K₀, ℓ̂ = (|ΣS|² − Σ|S|²)/(K₀(K₀−1)) has the mean ℓ and q̂ = Σ|S|²/K₀ the mean ℓ + t; times
    (K₀)_a(n−K₀)_b/(n)_{a+b}, falling factorials, they have the means pᵃ(1−p)ᵇℓ, where a ≥ 2, and pᵃ(1−p)ᵇ(ℓ + t), where
    a ≥ 1. A mean of ℓ̂ over the groups that have one would weigh prompts by their chance of having it.
    Equation: A_K has a = K + 1, b = N − K + k − 1 for pass@k; B_K = C(N, K)·((1−1/K)·ℓ̂ + q̂/K) with a = K, b = N − K.
    Args: groups, of N + k rollouts at least; group, N ≥ 1; of, pass@k.
    Raises: ValueError for log p, whose A_1 no group can tell, without groups, and for groups too small.
    Source: derived; see the head of this page.
    """
    if not of.successes:
        raise ValueError("log p needs ℓ from groups with one success, and measuring ℓ takes two: use gain_terms")
    least = group + of.successes + of.failures
    if not groups or group < 1 or min(scored.rollouts for scored in groups) < least:
        raise ValueError(f"{of.name} in groups of {group} needs measured groups of at least {least} rollouts")
    sensitivity, square = [0.0], [0.0]
    for count in range(1, group + 1):
        ways, rest = math.comb(group, count), group - count
        worth = (_chance(scored, count + of.successes, rest + of.failures) * _local(scored) for scored in groups)
        sizes = (
            (1 - 1 / count) * _local(scored) + scored.squares / max(scored.successes, 1) / count for scored in groups
        )
        noise = (_chance(scored, count, rest) * size for scored, size in zip(groups, sizes, strict=True))
        sensitivity.append(of.scale * ways * math.fsum(worth) / len(groups))
        square.append(ways * math.fsum(noise) / len(groups))
    return GainTerms(sensitivity=tuple(sensitivity), noise=tuple(square))


def _local(scored: Scored) -> float:
    """ℓ̂; zero where too few succeed, whose weight is zero too wherever ℓ counts."""
    pairs = scored.successes * (scored.successes - 1)
    return (scored.whole - scored.squares) / pairs if pairs else 0.0


def _chance(scored: Scored, successes: int, failures: int) -> float:
    """(K₀)_a(n−K₀)_b/(n)_{a+b}."""
    won, lost = math.perm(scored.successes, successes), math.perm(scored.rollouts - scored.successes, failures)
    return won * lost / math.perm(scored.rollouts, successes + failures)


def metric_gain(scale: Sequence[float], of: GainTerms) -> float:
    """What an update scale gains with its best step.

    Equation: (Σ s(K)·A_K)² / Σ s(K)²·B_K.
    Args: scale, s(K), K = 0 … N, as from `update_scale`.
    Returns: in units of the metric, times twice its curvature along the step.
    Raises: ValueError for a scale of another group.
    """
    if len(scale) != len(of.noise):
        raise ValueError(f"a scale of {len(scale) - 1} rollouts does not fit terms of {of.group}")
    square = math.fsum(s * s * b for s, b in zip(scale, of.noise, strict=True))
    return math.fsum(s * a for s, a in zip(scale, of.sensitivity, strict=True)) ** 2 / square if square else 0.0


def best_scale(of: GainTerms) -> tuple[float, ...]:
    """The update scale that gains most, s(N) = 1.

    Equation: s(K) ∝ A_K/B_K. For one prompt and any metric K/(K + t/ℓ): family C at N/(N + t/ℓ), REINFORCE where
        noise is all and maximum likelihood where there is none.
    """
    last = of.sensitivity[-1] / of.noise[-1]
    return tuple(a / b / last if b else 0.0 for a, b in zip(of.sensitivity, of.noise, strict=True))


def attainable_gain(of: GainTerms) -> float:
    """The most that any update scale gains: Σ A_K²/B_K."""
    return math.fsum(a * a / b for a, b in zip(of.sensitivity, of.noise, strict=True) if b)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of an RL2ML family, and what it is worth."""

    parameter: float
    share: float
    """Of the attainable gain, 0 … 1."""


def family_parameters(family: str, group: int) -> tuple[float, ...]:
    """The parameters to try of a family, 0 and 1 among them: steps of 0.05 up to 3, as far as the family reaches.

    Raises: ValueError for a family that does not exist.
    """
    if family not in FAMILIES:
        raise ValueError(f"no family is called {family!r}; known: {', '.join(FAMILIES)}")
    least = 0 if family == "D" else -19
    reach = group / (group - 1) if family == "C" and group > 1 else math.inf
    return tuple(step / 20 for step in range(least, 61) if step / 20 < reach)


def family_gains(family: str, of: GainTerms, tried: Sequence[float] = ()) -> list[Member]:
    """What the members of a family are worth.

    Args: family, A to D; tried, their parameters, those of `family_parameters` unless given.
    Raises: ValueError for a family or parameter that does not exist.
    """
    most = attainable_gain(of)

    def share(parameter: float) -> float:
        weight = family_weight(of.group, family=family, parameter=parameter)
        return min(metric_gain(update_scale(weight), of) / most, 1.0)

    return [Member(parameter=value, share=share(value)) for value in tried or family_parameters(family, of.group)]


def best_member(family: str, of: GainTerms, tried: Sequence[float] = ()) -> Member:
    """The member of a family that gains most; of equals the nearest to REINFORCE."""
    return min(family_gains(family, of, tried), key=lambda member: (-member.share, abs(member.parameter)))


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
