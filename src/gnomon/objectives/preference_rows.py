"""Rows that learn from pairs: the best of a group is preferred to its worst, by losses made for human preferences."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from gnomon.objectives import aggregate, closed, pairs, ratios
from gnomon.objectives.row import Baseline, Noise, Objective, OffPolicy, Singleton, row
from gnomon.objectives.target import Seen

__all__ = ["online_dpo", "online_ipo", "online_simpo", "online_slic", "xpo"]


@row
def online_dpo(*, beta: float) -> Objective:
    """Pairs are those of `best_against_worst`; a group whose rewards are all equal teaches nothing."""
    return Objective(
        advantage=pairs.best_against_worst,
        ratio=partial(pairs.logistic_pairs, beta=beta),
        correction=ratios.no_correction,
        aggregate=aggregate.group_sum,
        target=closed.of_pairs(
            partial(_constant, weight=beta / 2), closed.whole, "β/2·(1 − pᴺ − (1−p)ᴺ)·∇log(p/(1−p)) for rewards 0 and 1"
        ),
        off_policy=OffPolicy.ON_POLICY,
        singleton=Singleton.ZERO,
        baseline=Baseline.OTHERS,
        equation="κ = ±β·σ(−m) / G on better and worse, m = β·(Δ_better − Δ_worse), Δ = Σₜ log(π/ref)",
    )


@row
def online_ipo(*, beta: float) -> Objective:
    return replace(
        online_dpo(beta),
        ratio=partial(pairs.squared_pairs, beta=beta),
        target=closed.of_pairs(
            partial(_constant, weight=1 / beta), closed.whole, "(1 − pᴺ − (1−p)ᴺ)/β·∇log(p/(1−p)) for rewards 0 and 1"
        ),
        equation="κ = ±(1/β − 2·(Δ_better − Δ_worse)) / G on better and worse, Δ = Σₜ log(π/ref)",
    )


@row
def online_slic(*, beta: float) -> Objective:
    """Differs: the margin is measured from a reference, as other libraries do; there the log-probabilities stand alone
    and a likelihood term holds the policy.
    """
    return replace(
        online_dpo(beta),
        ratio=partial(pairs.hinge_pairs, beta=beta),
        target=closed.of_pairs(
            partial(_constant, weight=beta), closed.whole, "β·(1 − pᴺ − (1−p)ᴺ)·∇log(p/(1−p)) for rewards 0 and 1"
        ),
        equation="κ = ±β·1[β·(Δ_better − Δ_worse) < 1] / G on better and worse, Δ = Σₜ log(π/ref)",
    )


@row
def online_simpo(*, beta: float, margin: float) -> Objective:
    return replace(
        online_dpo(),
        ratio=partial(pairs.mean_logistic_pairs, beta=beta, margin=margin),
        target=closed.of_pairs(
            partial(_simpo, beta=beta, margin=margin),
            closed.over_length,
            "β·P(best, worst)·E[σ(γ − β(Δ⁺ − Δ⁻))·∇(Δ⁺ − Δ⁻)], Δ = log π/|y|",
        ),
        noise=Noise.MOVES,
        equation="κ = ±β/|oᵢ|·σ(γ − m) / G on better and worse, m = β·(Δ_better − Δ_worse), Δ = 1/|o| Σₜ log π",
    )


@row
def xpo(*, beta: float, alpha: float) -> Objective:
    """Where policy and reference agree the second part vanishes on average.

    Differs: see `reference_likelihood`, which needs no answers of the reference.
    """
    return replace(
        online_dpo(beta),
        penalty=pairs.reference_likelihood,
        penalty_weight=alpha,
        equation="κ = (±β·σ(−m) on better and worse, − α·Πₜ(ref/μ)/n on all) / G, m as in online DPO",
    )


def _constant(better: Seen, worse: Seen, *, weight: float) -> float:
    return weight


def _simpo(better: Seen, worse: Seen, *, beta: float, margin: float) -> float:
    ahead = math.fsum(better.logp) / better.length - math.fsum(worse.logp) / worse.length
    return beta / (1 + math.exp(beta * ahead - margin))
