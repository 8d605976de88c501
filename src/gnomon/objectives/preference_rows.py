"""Rows that learn from pairs: the best of a group is preferred to its worst, by losses made for human preferences."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from gnomon.objectives import aggregate, closed, pairs, ratios
from gnomon.objectives.row import Baseline, Need, Noise, Objective, OffPolicy, Singleton, above, at_least
from gnomon.objectives.target import Seen

__all__ = ["online_dpo", "online_ipo", "online_simpo", "online_slic", "xpo"]


def online_dpo(beta: float = 0.1) -> Objective:
    """Online DPO: the logistic loss on the margin between the best and the worst rollout of a group.

    Pairs are those of `best_against_worst`; a group whose rewards are all equal teaches nothing.

    Args: beta, β of the margin, > 0: the larger, the nearer to the reference.
    Raises: ValueError for an option out of range.
    """
    above(0, beta=beta)
    return Objective(
        name="online_dpo",
        advantage=pairs.best_against_worst,
        ratio=partial(pairs.logistic_pairs, beta=beta),
        correction=ratios.no_correction,
        aggregate=aggregate.group_sum,
        needs=frozenset({Need.REFERENCE}),
        target=closed.of_pairs(
            partial(_constant, pull=beta / 2), closed.whole, "β/2·(1 − pᴺ − (1−p)ᴺ)·∇log(p/(1−p)) for rewards 0 and 1"
        ),
        off_policy=OffPolicy.ON_POLICY,
        singleton=Singleton.ZERO,
        min_group=2,
        baseline=Baseline.OTHERS,
        equation="κ = ±β·σ(−m) / G on better and worse, m = β·(Δ_better − Δ_worse), Δ = Σₜ log(π/ref)",
        source="Rafailov et al. 2023, arXiv 2305.18290; online as in Guo et al. 2024, arXiv 2402.04792",
    )


def online_ipo(beta: float = 0.1) -> Objective:
    """Online IPO: the squared distance of the margin between best and worst from 1/(2β), which it comes to rest at.

    Args: beta, the regularisation (τ in the paper), > 0.
    Raises: ValueError for an option out of range.
    """
    return replace(
        online_dpo(beta),
        name="online_ipo",
        ratio=partial(pairs.squared_pairs, beta=beta),
        target=closed.of_pairs(
            partial(_constant, pull=1 / beta), closed.whole, "(1 − pᴺ − (1−p)ᴺ)/β·∇log(p/(1−p)) for rewards 0 and 1"
        ),
        equation="κ = ±(1/β − 2·(Δ_better − Δ_worse)) / G on better and worse, Δ = Σₜ log(π/ref)",
        source="Azar et al. 2023, arXiv 2310.12036",
    )


def online_slic(beta: float = 0.1) -> Objective:
    """Online SLiC: the whole pull on best and worst until their margin is one, then none.

    Args: beta, β of the margin, > 0.
    Raises: ValueError for an option out of range.
    Differs: the margin is measured from a reference, as other libraries do; there the log-probabilities stand alone
        and a likelihood term holds the policy.
    """
    return replace(
        online_dpo(beta),
        name="online_slic",
        ratio=partial(pairs.hinge_pairs, beta=beta),
        target=closed.of_pairs(
            partial(_constant, pull=beta), closed.whole, "β·(1 − pᴺ − (1−p)ᴺ)·∇log(p/(1−p)) for rewards 0 and 1"
        ),
        equation="κ = ±β·1[β·(Δ_better − Δ_worse) < 1] / G on better and worse, Δ = Σₜ log(π/ref)",
        source="Zhao et al. 2023, arXiv 2305.10425",
    )


def online_simpo(beta: float = 2.0, margin: float = 1.0) -> Objective:
    """Online SimPO: the logistic loss on log-probabilities per token, beyond a margin; no reference.

    Args: beta, β of the log-probability per token, > 0; margin, γ, ≥ 0, half of β is usual.
    Raises: ValueError for an option out of range.
    """
    above(0, beta=beta)
    at_least(0, margin=margin)
    return replace(
        online_dpo(),
        name="online_simpo",
        ratio=partial(pairs.mean_logistic_pairs, beta=beta, margin=margin),
        needs=frozenset(),
        target=closed.of_pairs(
            partial(_simpo, beta=beta, margin=margin),
            closed.over_length,
            "β·P(best, worst)·E[σ(γ − β(Δ⁺ − Δ⁻))·∇(Δ⁺ − Δ⁻)], Δ = log π/|y|",
        ),
        noise=Noise.MOVES,
        equation="κ = ±β/|oᵢ|·σ(γ − m) / G on better and worse, m = β·(Δ_better − Δ_worse), Δ = 1/|o| Σₜ log π",
        source="Meng et al. 2024, arXiv 2405.14734",
    )


def xpo(beta: float = 0.1, alpha: float = 5e-6) -> Objective:
    """XPO: online DPO, and away from what the reference would answer, in order to explore.

    Where policy and reference agree the second part vanishes on average.

    Args: beta, β of the margin, > 0; alpha, weight of the log-likelihood of the reference's answers, ≥ 0.
    Raises: ValueError for an option out of range.
    Differs: see `reference_likelihood`, which needs no answers of the reference.
    """
    at_least(0, alpha=alpha)
    return replace(
        online_dpo(beta),
        name="xpo",
        penalty=pairs.reference_likelihood,
        penalty_weight=alpha,
        equation="κ = (±β·σ(−m) on better and worse, − α·Πₜ(ref/μ)/n on all) / G, m as in online DPO",
        source="Xie et al. 2024, arXiv 2405.21046",
    )


def _constant(better: Seen, worse: Seen, *, pull: float) -> float:
    return pull


def _simpo(better: Seen, worse: Seen, *, beta: float, margin: float) -> float:
    ahead = math.fsum(better.logp) / better.length - math.fsum(worse.logp) / worse.length
    return beta / (1 + math.exp(beta * ahead - margin))
