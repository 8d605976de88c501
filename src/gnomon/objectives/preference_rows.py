"""Rows with losses made for human preferences: the best of a group over its worst, or right ones over wrong ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from torch import Tensor

from gnomon.objectives import (
    advantages,
    aggregate,
    closed,
    closed_groups,
    counts,
    pairs,
    penalties,
    ratios,
    rollout_credit,
)
from gnomon.objectives.group_rows import standard_score
from gnomon.objectives.row import Baseline, Noise, Objective, OffPolicy, Singleton, row
from gnomon.objectives.target import PolicyGradient, Seen, TokenShape

__all__ = [
    "online_cpo",
    "online_dpo",
    "online_kto",
    "online_orpo",
    "online_simpo",
    "tpo",
    "xpo",
]


CONSTANT = "(1 − pᴺ − (1−p)ᴺ)"
MARGINS: dict[str, tuple[Callable[..., Tensor], Callable[[float], float], str, str]] = {
    "logistic": (pairs.logistic_pairs, lambda beta: beta / 2, f"β/2·{CONSTANT}", "±β·σ(−m)"),
    "squared": (pairs.squared_pairs, lambda beta: 1 / beta, f"{CONSTANT}/β", "±(1/β − 2·m/β)"),
    "hinge": (pairs.hinge_pairs, lambda beta: beta, f"β·{CONSTANT}", "±β·1[m < 1]"),
}
"""By the option `loss`: the ratio, its size where policy and reference agree, and both in words."""


@row
def online_dpo(*, beta: float, loss: str) -> Objective:
    """Pairs are those of `best_against_worst`; a group whose rewards are all equal teaches nothing.

    Differs: with `hinge` the margin is measured from a reference, as other libraries do; in SLiC the log-probabilities
        stand alone and a likelihood term holds the policy.
    """
    ratio, size, weight, slope = MARGINS[loss]
    return Objective(
        advantage=pairs.best_against_worst,
        ratio=partial(ratio, beta=beta),
        correction=ratios.no_correction,
        aggregate=aggregate.group_sum,
        target=closed.of_pairs(
            partial(_constant, weight=size(beta)), closed.whole, f"{weight}·∇log(p/(1−p)) for rewards 0 and 1"
        ),
        off_policy=OffPolicy.ON_POLICY,
        singleton=Singleton.ZERO,
        baseline=Baseline.OTHERS,
        equation=f"κ = {slope} / G on better and worse, m = β·(Δ_better − Δ_worse), Δ = Σₜ log(π/ref)",
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
def online_cpo(*, beta: float, alpha: float) -> Objective:
    """Differs: released code takes the likelihood of the better as a mean over the tokens of the micro-batch; here it
    is that of the whole answer, as in the paper.
    """
    return replace(
        online_dpo(),
        ratio=partial(pairs.unanchored_pairs, beta=beta, alpha=alpha),
        target=closed.of_pairs(
            partial(_cpo, beta=beta, alpha=alpha),
            closed.whole,
            "P(best, worst)·E[β·σ(−β(Δ⁺ − Δ⁻))·∇(Δ⁺ − Δ⁻) + α·∇Δ⁺], Δ = log π",
            worse=partial(_cpo, beta=beta, alpha=0.0),
        ),
        noise=Noise.MOVES,
        equation="κ = (±β·σ(−m) on better and worse, + α on better) / G, m = β·(Δ_better − Δ_worse), Δ = Σₜ log π",
    )


@row
def online_orpo(*, weight: float, likelihood: str) -> Objective:
    """The better answers are learnt by heart beside the comparison, in which short answers weigh more, as in SimPO.
    The target is that of a step of one group. With `likelihood=token` coefficients need all tokens of an optimiser
    step.

    Differs: the source compares answers of a data set, this row the policy's own. With `likelihood=token` the mean is
        over the better answers of the step, where released code takes it over those of a micro-batch. The equation of
        the paper has the mean over each answer, `likelihood=answer`, which gives the tokens of long answers the least
        weight. On `char_count` right answers are the longer ones, and nothing is learned with it.
    """
    by_answer = closed.of_pairs(
        partial(_orpo_better, weight=weight, likelihood=1.0),
        closed.over_length,
        "P(best, worst)·E[λ·σ(−m)·∇m + ∇log P⁺], m = log odds P⁺ − log odds P⁻, log P = log π/|y|",
        worse=partial(_orpo_worse, weight=weight),
    )
    if likelihood == "answer":
        return replace(
            online_dpo(),
            ratio=partial(pairs.odds_pairs, weight=weight),
            target=by_answer,
            noise=Noise.MOVES,
            equation="κ = (±λ·σ(−m)/(1 − P) on better and worse, + 1 on better) / (G·|o|), "
            "m = log odds P_better − log odds P_worse, log P = 1/|o| Σₜ log π",
        )
    contrast = closed.of_pairs(
        partial(_orpo_better, weight=weight, likelihood=0.0),
        closed.over_length,
        "P(best, worst)·E[λ·σ(−m)·∇m], m = log odds P⁺ − log odds P⁻, log P = log π/|y|",
        worse=partial(_orpo_worse, weight=weight),
    )
    return replace(
        online_dpo(),
        ratio=partial(pairs.odds_pairs_by_token, weight=weight),
        target=closed_groups.with_tokens_of_best(contrast),
        noise=Noise.MOVES,
        equation="κ = (±λ·σ(−m)/((1 − P)·|o|) on better and worse, + 1/L on better) / G, "
        "m = log odds P_better − log odds P_worse, log P = 1/|o| Σₜ log π, L the mean length of the better of the step",
    )


@row
def online_kto(*, beta: float, success: float, failure: float) -> Objective:
    """No pairs: each rollout is judged by itself, against what the policy makes of all rollouts of the step. Where
    policy and reference agree it is REINFORCE with a constant baseline.
    """
    return Objective(
        advantage=partial(
            advantages.count_advantage,
            weight=partial(counts.outcome_weight, success=beta * success / 4, failure=-beta * failure / 4),
        ),
        ratio=partial(pairs.prospect, beta=beta),
        correction=ratios.no_correction,
        aggregate=aggregate.sequence_sum,
        target=PolicyGradient(weight=partial(_kto, size=beta * (success + failure) / 4), text="β·(λ₊ + λ₋)/4 ∇p"),
        off_policy=OffPolicy.ON_POLICY,
        singleton=Singleton.AFFINE,
        baseline=Baseline.NONE,
        equation="κ = (λ₊ of a success, −λ₋ of a failure)·β·σ(x)·σ(−x) / S, x = β·(Δ − z), Δ = Σₜ log(π/ref), "
        "z = max(0, mean Δ)",
    )


@row
def tpo(*, temperature: float) -> Objective:
    """The answers of a group are to have the shares that their rewards ask for, and once they have them nothing moves:
    the update neither overshoots nor needs a clip. Long answers differ much in likelihood, so most of a group's shares
    fall to one.
    """
    return replace(
        online_dpo(),
        advantage=partial(advantages.standardise, epsilon=0.0),
        credit=partial(rollout_credit.target_less_share, temperature=temperature),
        ratio=ratios.no_ratio,
        penalty=penalties.drift_of_share,
        penalty_weight=1.0,
        target=TokenShape(
            credit=partial(_target_less_share, temperature=temperature),
            text="Σ π h ∇log π, h = N·E[q − p], p = π(y)/Σⱼ π(yⱼ), q ∝ p·exp((r − r̄)/(σ·η))",
            closed=closed_groups.pairs_by_target(
                temperature,
                "Σ π h ∇log π, h = N·E[q − p], p = π(y)/Σⱼ π(yⱼ), q ∝ p·exp((r − r̄)/(σ·η)); for pairs "
                "h = ±2·E[σ(x + 2/η) − σ(x)], x = log π of the better less log π of the worse",
            ),
        ),
        off_policy=OffPolicy.REGULARISED,
        baseline=Baseline.GROUP,
        noise=Noise.MOVES,
        equation="κ = (qᵢ − pᵢ) / G, pᵢ = π(yᵢ)/Σⱼ π(yⱼ), q ∝ p_prox·exp(u/η), u = (rᵢ − r̄)/σ",
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


def _target_less_share(own: Seen, others: Sequence[Seen], max_tokens: int, *, temperature: float) -> list[float]:
    company = [own, *others]
    likely = [math.exp(math.fsum(rollout.logp)) for rollout in company]
    rewards = [rollout.reward for rollout in company]
    scores = [
        standard_score(reward, [*rewards[:i], *rewards[i + 1 :]], epsilon=0.0) for i, reward in enumerate(rewards)
    ]
    tilted = [p * math.exp(score / temperature) for p, score in zip(likely, scores, strict=True)]
    return [tilted[0] / math.fsum(tilted) - likely[0] / math.fsum(likely)] * own.length


def _cpo(better: Seen, worse: Seen, *, beta: float, alpha: float) -> float:
    ahead = math.fsum(better.logp) - math.fsum(worse.logp)
    return beta / (1 + math.exp(beta * ahead)) + alpha


def _orpo_better(better: Seen, worse: Seen, *, weight: float, likelihood: float) -> float:
    return likelihood + _orpo(better, worse, better, weight)


def _orpo_worse(better: Seen, worse: Seen, *, weight: float) -> float:
    return _orpo(better, worse, worse, weight)


def _orpo(better: Seen, worse: Seen, own: Seen, weight: float) -> float:
    """The slope of λ log σ(m) in the log of an answer's mean likelihood, without its sign."""
    likely = {id(rollout): math.exp(math.fsum(rollout.logp) / rollout.length) for rollout in (better, worse)}
    odds = {key: chance / (1 - chance) for key, chance in likely.items()}
    return weight / (1 + odds[id(better)] / odds[id(worse)]) / (1 - likely[id(own)])


def _kto(p: float, group: int, max_tokens: int, *, size: float) -> float:
    return size


def _constant(better: Seen, worse: Seen, *, weight: float) -> float:
    return weight


def _simpo(better: Seen, worse: Seen, *, beta: float, margin: float) -> float:
    ahead = math.fsum(better.logp) / better.length - math.fsum(worse.logp) / worse.length
    return beta / (1 + math.exp(beta * ahead - margin))
