"""Rows that differ in how a reward becomes credit, down to the two rows that all others are built upon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from gnomon.objectives import advantages, aggregate, closed, ratios
from gnomon.objectives.row import Baseline, Objective, OffPolicy, Singleton, row
from gnomon.objectives.target import FrozenShape, PolicyGradient

__all__ = ["dr_grpo", "echo", "grpo", "reinforce", "reinforce_centred", "rloo"]


@row
def reinforce() -> Objective:
    return Objective(
        advantage=advantages.raw,
        ratio=ratios.no_ratio,
        correction=ratios.no_correction,
        aggregate=aggregate.sequence_sum,
        target=PolicyGradient(weight=one, text="∇p"),
        off_policy=OffPolicy.ON_POLICY,
        singleton=Singleton.RAW,
        baseline=Baseline.NONE,
        equation="κ = rᵢ / S",
    )


@row
def rloo() -> Objective:
    return Objective(
        advantage=advantages.leave_one_out,
        ratio=ratios.no_ratio,
        correction=ratios.no_correction,
        aggregate=aggregate.sequence_sum,
        target=PolicyGradient(weight=one, text="∇p"),
        off_policy=OffPolicy.ON_POLICY,
        singleton=Singleton.REFUSED,
        baseline=Baseline.OTHERS,
        equation="κ = (rᵢ − mean_{j≠i} rⱼ) / S",
    )


@row
def reinforce_centred() -> Objective:
    return replace(
        reinforce(),
        advantage=advantages.mean_centred,
        target=PolicyGradient(weight=_others_share, text="(N−1)/N ∇p"),
        singleton=Singleton.ZERO,
        baseline=Baseline.GROUP,
        equation="κ = (rᵢ − r̄) / S",
    )


@row
def grpo(*, clip_low: float, clip_high: float, epsilon: float, deviation: str) -> Objective:
    """Differs: the paper adds a k3 penalty of 0.04 to the reference; a run adds one with `regularize.kl`."""
    published = Objective(
        advantage=partial(advantages.standardise, epsilon=epsilon),
        ratio=partial(ratios.ppo_clip, low=clip_low, high=clip_high),
        correction=ratios.no_correction,
        aggregate=aggregate.sequence_mean,
        target=_standardised_shape(epsilon),
        off_policy=OffPolicy.TOKEN,
        singleton=Singleton.ZERO,
        baseline=Baseline.GROUP,
        equation="κ = clip(ρ; A)·A / (S·|oᵢ|), A = (rᵢ − r̄)/(σ + ε)",
    )
    if deviation == "population":
        return published
    return replace(
        published,
        advantage=partial(advantages.sample_standardised, epsilon=epsilon),
        target=FrozenShape(
            advantage=partial(sample_score, epsilon=epsilon),
            share=closed.over_length,
            text="Σ π h ∇log π, h = E[(r − r̄)/(s + ε)] / |y|",
            closed=closed.standardised_form(
                partial(closed.sample, epsilon=epsilon),
                closed.over_length,
                "w(p)·(∇E[r/|y|] − p·∇E[1/|y|]), w = √((N−1)/N)·E[√(F/(1+M)) + √(M/(1+F))], M ~ Bin(N−1, p), F = N−1−M",
            ),
        ),
        equation="κ = clip(ρ; A)·A / (S·|oᵢ|), A = (rᵢ − r̄)/(s + ε), s over N−1",
    )


@row
def echo(*, observation: float, clip_low: float, clip_high: float, epsilon: float) -> Objective:
    """The second term also teaches in groups of equal rewards. It is computed at the temperature of the samples, from
    observations and tool results without the template around them; the first prompt is left out. In an environment of
    one turn the row is `grpo`.

    Differs: prime-rl trains on the results of tools alone, unless other roles are set; its advantages are those of
        `reinforce_centred`, in a mean over all tokens of the step.
    """
    return replace(
        grpo(clip_low, clip_high, epsilon),
        observation=observation,
        target=_standardised_shape(epsilon, "; beside it λ·E[mean ∇log π(o)] over the observed tokens o"),
        equation="κ = clip(ρ; A)·A / (S·|oᵢ|), A = (rᵢ − r̄)/(σ + ε); beside it λ / O of each of the O observed tokens",
    )


@row
def dr_grpo(*, clip_low: float, clip_high: float) -> Objective:
    return Objective(
        advantage=advantages.mean_centred,
        ratio=partial(ratios.ppo_clip, low=clip_low, high=clip_high),
        correction=ratios.no_correction,
        aggregate=aggregate.constant,
        target=PolicyGradient(weight=_centred_share, text="(N−1)/(N·L_max) ∇p"),
        off_policy=OffPolicy.TOKEN,
        singleton=Singleton.ZERO,
        baseline=Baseline.GROUP,
        equation="κ = clip(ρ; A)·A / (S·L_max), A = rᵢ − r̄",
    )


def _standardised_shape(epsilon: float, beside: str = "") -> FrozenShape:
    """Args: beside: words on terms beside κ, which answers of one turn do not have."""
    return FrozenShape(
        advantage=partial(standard_score, epsilon=epsilon),
        share=closed.over_length,
        text=f"Σ π h ∇log π, h = E[(r − r̄)/(σ + ε)] / |y|{beside}",
        closed=closed.standardised_form(
            partial(closed.population, epsilon=epsilon),
            closed.over_length,
            "w(p)·(∇E[r/|y|] − p·∇E[1/|y|]), w = E[√(F/(1+M)) + √(M/(1+F))], M ~ Bin(N−1, p), F = N−1−M" + beside,
        ),
    )


def one(p: float, group: int, max_tokens: int) -> float:
    return 1.0


def _others_share(p: float, group: int, max_tokens: int) -> float:
    return (group - 1) / group


def _centred_share(p: float, group: int, max_tokens: int) -> float:
    return (group - 1) / (group * max_tokens)


def standard_score(reward: float, others: Sequence[float], *, epsilon: float) -> float:
    """The reward standardised by the deviation of its group."""
    return standardise(reward, others, len(others) + 1, epsilon)


def sample_score(reward: float, others: Sequence[float], *, epsilon: float) -> float:
    """The reward standardised by the deviation of its group as a sample."""
    return standardise(reward, others, len(others), epsilon)


def standardise(reward: float, others: Sequence[float], count: int, epsilon: float) -> float:
    """(r − r̄)/(σ + ε), where σ² is the sum of squares over `count`; 0 where all rewards are equal."""
    rewards = [reward, *others]
    if min(rewards) == max(rewards):
        return 0.0
    mean = math.fsum(rewards) / len(rewards)
    return (reward - mean) / (math.sqrt(math.fsum((value - mean) ** 2 for value in rewards) / count) + epsilon)
