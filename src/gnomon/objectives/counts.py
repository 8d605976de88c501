"""Credit that depends on a group only through its count of successes, and its expected gradient.

A count weight gives a success of a group of N the advantage a(K) and a failure b(K), K the successes of the
group. With g = 1/N Σᵢ [rᵢ·a(K) + (1−rᵢ)·b(K)]·∇log π(yᵢ) and p the chance of a success,

    E[g] = w(p)·∇p,   w(p) = Σₘ βₘ·C(N−1, m)·pᵐ·(1−p)^{N−1−m},   βₘ = a(m+1) − b(m).

So the expected gradient of a count weight is that of a function of p, a polynomial of degree at most N that β
determines. An amount added to both a(m+1) and b(m), a baseline from the other rollouts, changes only the variance.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gnomon.objectives.options import in_family

__all__ = [
    "FAMILIES",
    "CountWeight",
    "Regime",
    "analytic_weight",
    "centred_pass_weight",
    "control_weight",
    "direct_weight",
    "family_weight",
    "label_weight",
    "less_baseline",
    "outcome_weight",
    "regime",
    "regime_of",
    "rejected_weight",
    "released_weight",
    "sub_weight",
    "update_scale",
    "without_failures",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountWeight:
    """Advantages by the group's count of successes, K = 0 … N."""

    success: tuple[float, ...]
    """a(K). a(0) weighs nothing."""
    failure: tuple[float, ...]
    """b(K). b(N) weighs nothing."""

    def __post_init__(self) -> None:
        if len(self.success) != len(self.failure) or len(self.success) < 2:
            raise ValueError("a count weight has one a(K) and one b(K) for each K = 0 … N, N ≥ 1")

    @property
    def group(self) -> int:
        """N."""
        return len(self.success) - 1

    @property
    def beta(self) -> tuple[float, ...]:
        """βₘ = a(m+1) − b(m), m = 0 … N−1: all of the weight that its expectation depends on."""
        return tuple(self.success[m + 1] - self.failure[m] for m in range(self.group))

    def weight_at(self, p: float) -> float:
        """w(p) in E[g] = w(p)·∇p.

        Source: the Bernstein form of count-only credit: Davis & Recht 2025, arXiv 2510.13651.
        """
        last = self.group - 1
        return math.fsum(b * math.comb(last, m) * p**m * (1 - p) ** (last - m) for m, b in enumerate(self.beta))


def without_failures(beta: Sequence[float]) -> CountWeight:
    """The count weight with that β and nothing for failures."""
    return CountWeight(success=(0.0, *beta), failure=(0.0,) * (len(beta) + 1))


def less_baseline(weight: CountWeight, baseline: Sequence[float]) -> CountWeight:
    """The weight less a baseline h(m) of the m successes among the *other* rollouts; w stays as it is.

    Equation: a(m+1) − h(m), b(m) − h(m), m = 0 … N−1.
    Raises: ValueError unless there is one h(m) for each m.
    """
    if len(baseline) != weight.group:
        raise ValueError(f"a group of {weight.group} needs {weight.group} baselines, not {len(baseline)}")
    success = (weight.success[0], *(a - h for a, h in zip(weight.success[1:], baseline, strict=True)))
    failure = (*(b - h for b, h in zip(weight.failure[:-1], baseline, strict=True)), weight.failure[-1])
    return CountWeight(success=success, failure=failure)


def outcome_weight(group: int, *, success: float, failure: float) -> CountWeight:
    """A constant for every success and another for every failure, whatever the count.

    Equation: a = success, b = failure; w = success − failure.
    Source: Zhu et al. 2025, arXiv 2506.01347.
    """
    return CountWeight(success=(success,) * (group + 1), failure=(failure,) * (group + 1))


def label_weight(group: int, *, temperature: float) -> CountWeight:
    """`outcome_weight` with the size of the group over τ, of either sign: what a rollout has before its share.

    Equation: a = N/τ, b = −N/τ.
    Source: REAL 2026, arXiv 2602.05630.
    """
    return outcome_weight(group, success=group / temperature, failure=-group / temperature)


def rejected_weight(group: int, *, success: float, failure: float) -> CountWeight:
    """`outcome_weight` of groups with a success and a failure; nothing for the others.

    Equation: a = success for K < N, b = failure for K > 0; w = success·(1 − p^{N−1}) − failure·(1 − (1−p)^{N−1}).
    Source: Xiong et al. 2025, arXiv 2504.11343 (Reinforce-Rej).
    """
    return CountWeight(
        success=(*[success] * group, 0.0),
        failure=(0.0, *[failure] * group),
    )


def direct_weight(group: int) -> CountWeight:
    """The mean score of the successes: maximum likelihood truncated at order N.

    Equation: a = N/K, b = 0; w = (1 − (1−p)^N)/p.
    Source: Tajwar et al. 2026 (MaxRL), arXiv 2602.02710.
    """
    return without_failures([group / count for count in range(1, group + 1)])


def control_weight(group: int) -> CountWeight:
    """`direct_weight` less the mean score of the whole group, which is kept also where all fail.

    Equation: a = N/K − 1, b = −1; w = (1 − (1−p)^N)/p.
    Source: Tajwar et al. 2026 (MaxRL), arXiv 2602.02710, the control variate.
    """
    return less_baseline(direct_weight(group), [1.0] * group)


def released_weight(group: int, *, epsilon: float) -> CountWeight:
    """The reward's excess over the group mean, relative to that mean: order N−1, since all-fail groups are dropped.

    Equation: a = (1 − K/N)/(K/N + ε), b = −(K/N)/(K/N + ε); w = (1 − (1−p)^{N−1})/p at ε = 0.
    Args: epsilon, added to the mean, ≥ 0.
    Source: tajwarfahim/maxrl, compute_maxrl_outcome_advantage (ε = 1e-6).
    """
    share = [count / group for count in range(group + 1)]
    success = tuple((1 - s) / (s + epsilon) if s else 0.0 for s in share)
    failure = tuple(-s / (s + epsilon) if s else 0.0 for s in share)
    return CountWeight(success=success, failure=failure)


def sub_weight(group: int, *, order: int) -> CountWeight:
    """Maximum likelihood truncated at an order T below the group: the mean over all its subsets of T rollouts.

    Equation: a = N/C(N, T) Σ_{k=1}^{T} C(K−1, k−1)·C(N−K, T−k)/k, b = 0; w = (1 − (1−p)^T)/p.
    Raises: ValueError where the group is smaller than the order.
    Source: tajwarfahim/maxrl, c_sub_TN.
    """
    if group < order:
        raise ValueError(f"order {order} needs groups of at least {order}, not {group}")

    def a(count: int) -> float:
        ways = (math.comb(count - 1, k - 1) * math.comb(group - count, order - k) / k for k in range(1, order + 1))
        return group * math.fsum(ways) / math.comb(group, order)

    return without_failures([a(count) for count in range(1, group + 1)])


def _rising(group: int, count: int, alpha: float) -> float:
    """Γ(N+α)Γ(K)/(Γ(N)Γ(K+α)), as a product of factors that no group can overflow."""
    return math.prod((n + alpha) / n for n in range(count, group))


def _power(group: int, count: int, alpha: float) -> float:
    return math.pow(group / count, alpha)


def _mix(group: int, count: int, share: float) -> float:
    return group / ((1 - share) * group + share * count)


def _geometric(group: int, count: int, ratio: float) -> float:
    ways = (ratio**k * math.comb(group - count, k) / math.comb(group - 1, k) for k in range(group - count + 1))
    return math.fsum(ways)


FAMILIES: dict[str, Callable[[int, int, float], float]] = {
    "A": _rising,
    "B": _power,
    "C": _mix,
    "D": _geometric,
}
"""Name of an RL2ML family to a(K) from N, K ≥ 1 and its parameter: 0 is REINFORCE, 1 is MaxRL, beyond is beyond."""


def family_weight(group: int, *, family: str, parameter: float, baseline: float = 0.0) -> CountWeight:
    """A success weight between REINFORCE (0) and maximum likelihood of order N (1), or beyond.

    Equation, with N the group and x the parameter:
        A  a = Γ(N+x)Γ(K)/(Γ(N)Γ(K+x))           w = Σ_{k<N} x(x+1)…(x+k−1)/k! · (1−p)ᵏ
        B  a = (N/K)ˣ                             w = E[(N/(1+M))ˣ], M ~ Bin(N−1, p)
        C  a = N/((1−x)·N + x·K)                  w = E[N/((1−x)·N + x·(1+M))]
        D  a = Σ_{k≤N−K} xᵏ C(N−K,k)/C(N−1,k)     w = (1 − (x(1−p))^N)/(1 − x(1−p))
    Args: family, A to D; parameter; baseline, taken off every rollout of every group.
    Raises: ValueError for a family that does not exist, and for a parameter that it cannot have.
    Source: derived; see the objective rl2ml.
    """
    if family not in FAMILIES:
        raise ValueError(f"no family is called {family!r}; known: {', '.join(FAMILIES)}")
    if not in_family(family, parameter, group):
        raise ValueError(f"family {family} has no parameter {parameter!r} in groups of {group}")
    success = [FAMILIES[family](group, count, parameter) for count in range(1, group + 1)]
    return less_baseline(without_failures(success), [baseline] * group)


def analytic_weight(group: int, *, k: int) -> CountWeight:
    """The advantage of pass@k over random subsets of k, standardised.

    Equation: a = (1−R)/σ, b = (1 − R − C(N−K−1, k−1)/C(N−1, k−1))/σ, R = 1 − C(N−K, k)/C(N, k),
        σ = √(R(1−R)); zero where σ is.
    Raises: ValueError for groups of k or fewer, where nothing is left.
    Source: Chen et al. 2025, arXiv 2508.10751.
    """
    plain = centred_pass_weight(group, k=k)
    passes = [1 - math.comb(group - count, k) / math.comb(group, k) for count in range(group + 1)]
    scale = [1 / math.sqrt(rate * (1 - rate)) if 0 < rate < 1 else 0.0 for rate in passes]
    return CountWeight(
        success=tuple(a * s for a, s in zip(plain.success, scale, strict=True)),
        failure=tuple(b * s for b, s in zip(plain.failure, scale, strict=True)),
    )


def centred_pass_weight(group: int, *, k: int) -> CountWeight:
    """`analytic_weight` without the division by the deviation.

    Equation: a = 1−R, b = 1 − R − C(N−K−1, k−1)/C(N−1, k−1); w = (1 − k/N)·(1−p)^{k−1}.
    Raises: ValueError for groups of k or fewer.
    """
    if group <= k:
        raise ValueError(f"k = {k} needs groups of at least {k + 1}, not {group}")
    fails = [math.comb(group - count, k) / math.comb(group, k) for count in range(group + 1)]
    alone = [math.comb(group - count - 1, k - 1) / math.comb(group - 1, k - 1) for count in range(group)]
    return CountWeight(success=(0.0, *fails[1:]), failure=(*(f - x for f, x in zip(fails, alone, strict=False)), 0.0))


class Regime(StrEnum):
    """How far a group moves the policy as its count of successes grows."""

    SUBCRITICAL = "subcritical"
    """Ever farther: REINFORCE and all on its side of maximum likelihood."""
    CRITICAL = "critical"
    """Equally far, whatever the count: maximum likelihood."""
    SUPERCRITICAL = "supercritical"
    """Ever less far: rare successes move more than common ones."""
    MIXED = "mixed"
    """Farther, then less far, or the other way round."""


def update_scale(weight: CountWeight) -> tuple[float, ...]:
    """s(K), K = 0 … N: g = s(K) times the mean score of the successes.

    Equation: s(K) = K·a(K)/N, for a weight that gives failures nothing; E[s(K)] = p·w(p).
    Raises: ValueError for a weight that gives failures something.
    """
    if any(weight.failure[:-1]):
        raise ValueError("only a weight that gives failures nothing has an update scale")
    return tuple(count * a / weight.group for count, a in enumerate(weight.success))


def regime(weight: CountWeight) -> Regime:
    """How the update scale runs over K = 1 … N."""
    return regime_of(update_scale(weight)[1:])


def regime_of(scale: Sequence[float]) -> Regime:
    """How a scale runs, s(1) … s(N). Differences below 1e-12 of the largest are none."""
    least = 1e-12 * max(map(abs, scale))
    steps = [after - before for before, after in itertools.pairwise(scale)]
    rises, falls = any(step > least for step in steps), any(step < -least for step in steps)
    if rises and falls:
        return Regime.MIXED
    return Regime.SUBCRITICAL if rises else Regime.SUPERCRITICAL if falls else Regime.CRITICAL
