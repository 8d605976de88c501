"""Rows whose credit looks at how many rollouts of the group succeed, or at the best of some of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from gnomon.objectives import advantages, closed, counts
from gnomon.objectives.group_rows import reinforce
from gnomon.objectives.row import Baseline, Objective, Singleton, row
from gnomon.objectives.target import PolicyGradient

__all__ = [
    "maxrl",
    "maxrl_control",
    "maxrl_released",
    "maxrl_sub",
    "pass_at_all",
    "pass_at_k_analytic",
    "pkpo",
    "pkpo_loo",
    "pkpo_marginal",
    "rl2ml",
]


@row
def maxrl() -> Objective:
    return replace(
        reinforce(),
        advantage=partial(advantages.count_advantage, weight=counts.direct_weight),
        target=PolicyGradient(weight=partial(_likelihood, short=0), text="(1 − (1−p)^N)/p ∇p"),
        equation="κ = rᵢ·N/K / S",
    )


@row
def maxrl_control() -> Objective:
    """A group without a success is kept: all its rollouts are pushed down alike. Rewards are 0 or 1."""
    return replace(
        maxrl(),
        advantage=partial(advantages.count_advantage, weight=counts.control_weight),
        singleton=Singleton.SHIFTED,
        equation="κ = (rᵢ·N/K − 1) / S",
    )


@row
def maxrl_released(*, epsilon: float) -> Objective:
    """It drops the groups without a success, and with them one order. Rewards are 0 or 1.

    Differs: the released code goes on with a token mean and a clip; here the credit stands alone.
    """
    return replace(
        maxrl(),
        advantage=partial(advantages.count_advantage, weight=partial(counts.released_weight, epsilon=epsilon)),
        target=PolicyGradient(
            weight=partial(_relative, epsilon=epsilon), text="(1 − (1−p)^{N−1})/p ∇p, up to the ε of the mean"
        ),
        singleton=Singleton.ZERO,
        equation="κ = (rᵢ − r̄)/(r̄ + ε) / S",
    )


@row
def maxrl_sub(*, order: int) -> Objective:
    return replace(
        maxrl(),
        advantage=partial(advantages.count_advantage, weight=partial(counts.sub_weight, order=order)),
        target=PolicyGradient(weight=partial(_likelihood_of, order=order), text=f"(1 − (1−p)^{order})/p ∇p"),
        singleton=Singleton.RAW if order == 1 else Singleton.REFUSED,
        equation="κ = rᵢ·N/C(N,T) Σₖ C(K−1,k−1)·C(N−K,T−k)/k / S",
    )


@row
def rl2ml(*, family: str, parameter: float, baseline: float) -> Objective:
    """Read in the paper's abstract: binary feedback, a family of surrogate objectives with a closed-form, exactly
    unbiased estimator at a fixed group size, going through RL and maximum likelihood to beyond, a scale of the
    update per count of successes with a sub- and a supercritical side. Derived here, since the parameterisation
    could not be read: the four families, their expectations, the update scale and its classification. Every
    member keeps the weight of a prompt that always succeeds at w(1) = 1.

    Differs: the paper's default could not be read; 0.5 lies halfway from RL to maximum likelihood.
    """
    credit = partial(counts.family_weight, family=family, parameter=parameter, baseline=baseline)
    credit(1)
    return replace(
        maxrl(),
        advantage=partial(advantages.count_advantage, weight=credit),
        target=PolicyGradient(weight=partial(_WEIGHT[family], parameter=parameter), text=_TEXT[family]),
        singleton=Singleton.SHIFTED if baseline else Singleton.RAW,
        equation="κ = (rᵢ·a(K) − baseline) / S, a(K) of the family",
    )


@row
def pkpo(*, k: int) -> Objective:
    return replace(
        reinforce(),
        advantage=partial(advantages.best_of, k=k),
        target=closed.best_of(k, "∇E[best of k], k(1−p)^{k−1} ∇p for rewards 0 and 1"),
        singleton=Singleton.RAW if k == 1 else Singleton.REFUSED,
        equation="κ = k·mean_{I∋i} max_I r / S, I of k rollouts",
    )


@row
def pkpo_loo(*, k: int) -> Objective:
    return replace(
        pkpo(k),
        advantage=partial(advantages.best_of_less_others, k=k),
        singleton=Singleton.REFUSED,
        baseline=Baseline.OTHERS,
        equation="κ = k·(mean_{I∋i} max_I r − mean_{I∌i} max_I r) / S, I of k rollouts",
    )


@row
def pkpo_marginal(*, k: int) -> Objective:
    return replace(
        pkpo(k),
        advantage=partial(advantages.best_of_marginal, k=k),
        singleton=Singleton.REFUSED,
        baseline=Baseline.OTHERS,
        equation="κ = k·mean_J (max_{J∪i} r − max_J r) / S, J of k−1 others",
    )


@row
def pass_at_all() -> Objective:
    return replace(
        reinforce(),
        advantage=advantages.max_less_others,
        target=closed.best_of(None, "∇E[best of N] / N, (1−p)^{N−1} ∇p for rewards 0 and 1"),
        singleton=Singleton.REFUSED,
        baseline=Baseline.OTHERS,
        equation="κ = (max_j rⱼ − max_{j≠i} rⱼ) / S",
    )


@row
def pass_at_k_analytic(*, k: int, scale: str) -> Objective:
    published = replace(
        reinforce(),
        advantage=partial(advantages.count_advantage, weight=partial(counts.analytic_weight, k=k)),
        target=PolicyGradient(weight=partial(_subset_weight, k=k), text="w(p) ∇p, w of degree N−1"),
        singleton=Singleton.REFUSED,
        equation="κ = (mean_{I∋i} pass(I) − R)/√(R(1−R)) / S, R = mean_I pass(I), I of k rollouts",
    )
    if scale == "deviation":
        return published
    return replace(
        published,
        advantage=partial(advantages.count_advantage, weight=partial(counts.centred_pass_weight, k=k)),
        target=PolicyGradient(weight=partial(_pass, k=k), text="(1 − k/N)(1−p)^{k−1} ∇p"),
        equation="κ = (mean_{I∋i} pass(I) − R) / S, R = mean_I pass(I), I of k rollouts",
    )


def _bernstein(p: float, group: int, beta: Callable[[int], float]) -> float:
    """Σₘ βₘ·P(m of the N−1 others succeed)."""
    last = group - 1
    return math.fsum(beta(m) * math.comb(last, m) * p**m * (1 - p) ** (last - m) for m in range(group))


def _likelihood(p: float, group: int, max_tokens: int, *, short: int) -> float:
    return _likelihood_of(p, group, max_tokens, order=group - short)


def _likelihood_of(p: float, group: int, max_tokens: int, *, order: int) -> float:
    return math.fsum((1 - p) ** power for power in range(order))


def _relative(p: float, group: int, max_tokens: int, *, epsilon: float) -> float:
    def beta(others: int) -> float:
        with_me, without = (others + 1) / group, others / group
        return (1 - with_me) / (with_me + epsilon) + (without / (without + epsilon) if others else 0.0)

    return _bernstein(p, group, beta)


def _rising(p: float, group: int, max_tokens: int, *, parameter: float) -> float:
    terms = itertools.accumulate(range(1, group), lambda term, k: term * (parameter + k - 1) / k * (1 - p), initial=1.0)
    return math.fsum(terms)


def _power(p: float, group: int, max_tokens: int, *, parameter: float) -> float:
    return _bernstein(p, group, lambda others: (group / (1 + others)) ** parameter)


def _mix(p: float, group: int, max_tokens: int, *, parameter: float) -> float:
    return _bernstein(p, group, lambda others: 1 / (1 - parameter + parameter * (1 + others) / group))


def _geometric(p: float, group: int, max_tokens: int, *, parameter: float) -> float:
    return math.fsum((parameter * (1 - p)) ** power for power in range(group))


_WEIGHT = {"A": _rising, "B": _power, "C": _mix, "D": _geometric}
_TEXT = {
    "A": "Σ_{k<N} x(x+1)…(x+k−1)/k!·(1−p)ᵏ ∇p",
    "B": "E[(N/(1+M))ˣ] ∇p, M ~ Bin(N−1, p)",
    "C": "E[N/((1−x)N + x(1+M))] ∇p, M ~ Bin(N−1, p)",
    "D": "(1 − (x(1−p))^N)/(1 − x(1−p)) ∇p",
}


def _pass(p: float, group: int, max_tokens: int, *, k: int) -> float:
    return (1 - k / group) * (1 - p) ** (k - 1)


def _subset_weight(p: float, group: int, max_tokens: int, *, k: int) -> float:
    def credit(mine: int, others: int) -> float:
        rewards = [mine, *[1] * others, *[0] * (group - 1 - others)]
        passes = {subset: max(rewards[i] for i in subset) for subset in itertools.combinations(range(group), k)}
        rate = math.fsum(passes.values()) / len(passes)
        own = [outcome for subset, outcome in passes.items() if 0 in subset]
        return (math.fsum(own) / len(own) - rate) / math.sqrt(rate * (1 - rate)) if 0 < rate < 1 else 0.0

    return _bernstein(p, group, lambda others: credit(1, others) - credit(0, others))
