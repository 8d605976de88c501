"""Rows that differ in how a reward becomes credit, down to the two rows that all others are built upon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from gnomon.objectives import advantages, aggregate, closed, penalties, ratios
from gnomon.objectives.row import Baseline, Objective, OffPolicy, Singleton, at_least
from gnomon.objectives.target import FrozenShape, PolicyGradient

__all__ = ["dr_grpo", "grpo", "grpo_sample_std", "reinforce", "reinforce_centred", "rloo"]


def reinforce() -> Objective:
    """REINFORCE: the score function times the reward."""
    return Objective(
        name="reinforce",
        advantage=advantages.raw,
        ratio=ratios.no_ratio,
        correction=ratios.no_correction,
        aggregate=aggregate.sequence_sum,
        target=PolicyGradient(weight=one, text="∇p"),
        off_policy=OffPolicy.ON_POLICY,
        singleton=Singleton.RAW,
        min_group=1,
        baseline=Baseline.NONE,
        equation="κ = rᵢ / S",
        source="Williams 1992, doi 10.1007/BF00992696",
    )


def rloo() -> Objective:
    """RLOO: REINFORCE with the mean of the other rollouts for a baseline."""
    return Objective(
        name="rloo",
        advantage=advantages.leave_one_out,
        ratio=ratios.no_ratio,
        correction=ratios.no_correction,
        aggregate=aggregate.sequence_sum,
        target=PolicyGradient(weight=one, text="∇p"),
        off_policy=OffPolicy.ON_POLICY,
        singleton=Singleton.REFUSED,
        min_group=2,
        baseline=Baseline.OTHERS,
        equation="κ = (rᵢ − mean_{j≠i} rⱼ) / S",
        source="Ahmadian et al. 2024, arXiv 2402.14740",
    )


def reinforce_centred() -> Objective:
    """REINFORCE with the mean of the whole group, the rollout's own reward included, for a baseline."""
    return replace(
        reinforce(),
        name="reinforce_centred",
        advantage=advantages.mean_centred,
        target=PolicyGradient(weight=_others_share, text="(N−1)/N ∇p"),
        singleton=Singleton.ZERO,
        min_group=2,
        baseline=Baseline.GROUP,
        equation="κ = (rᵢ − r̄) / S",
        source="Liu et al. 2025, arXiv 2503.20783, without its division by length",
    )


def grpo(
    clip_low: float = 0.2, clip_high: float = 0.2, epsilon: float = 1e-6, reference_weight: float = 0.0
) -> Objective:
    """GRPO: standardised rewards, clipped token ratios, mean over the tokens of each rollout.

    Args: clip_low, clip_high, the band of the ratio, ≥ 0; epsilon, added to the standard deviation, ≥ 0;
        reference_weight, λ of the k3 penalty, ≥ 0 (0: no penalty and no reference).
    Raises: ValueError for an option out of range.
    Differs: the paper has λ = 0.04; here the penalty is off unless asked for.
    """
    at_least(0, clip_low=clip_low, clip_high=clip_high, epsilon=epsilon, reference_weight=reference_weight)
    return Objective(
        name="grpo",
        advantage=partial(advantages.standardised, epsilon=epsilon),
        ratio=partial(ratios.ppo_clip, low=clip_low, high=clip_high),
        correction=ratios.no_correction,
        aggregate=aggregate.sequence_mean,
        penalty=penalties.k3 if reference_weight else None,
        penalty_weight=reference_weight,
        target=FrozenShape(
            advantage=partial(standard_score, epsilon=epsilon),
            share=closed.over_length,
            text="Σ π h ∇log π, h = E[(r − r̄)/(σ + ε)] / |y|",
            closed=closed.standardised(
                partial(closed.population, epsilon=epsilon),
                closed.over_length,
                "w(p)·(∇E[r/|y|] − p·∇E[1/|y|]), w = E[√(F/(1+M)) + √(M/(1+F))], M ~ Bin(N−1, p), F = N−1−M",
            ),
        ),
        off_policy=OffPolicy.TOKEN,
        singleton=Singleton.ZERO,
        min_group=2,
        baseline=Baseline.GROUP,
        equation="κ = (clip(ρ; A)·A + λ(π_ref/π − 1)) / (S·|oᵢ|), A = (rᵢ − r̄)/(σ + ε)",
        source="Shao et al. 2024, arXiv 2402.03300",
    )


def grpo_sample_std(clip_low: float = 0.2, clip_high: float = 0.2, epsilon: float = 1e-6) -> Objective:
    """GRPO as trainers release it: divided by the sample deviation, √((N−1)/N) times GRPO.

    Args: clip_low, clip_high, the band of the ratio, ≥ 0; epsilon, added to the standard deviation, ≥ 0.
    Raises: ValueError for an option out of range.
    """
    return replace(
        grpo(clip_low, clip_high, epsilon),
        name="grpo_sample_std",
        advantage=partial(advantages.sample_standardised, epsilon=epsilon),
        target=FrozenShape(
            advantage=partial(sample_score, epsilon=epsilon),
            share=closed.over_length,
            text="Σ π h ∇log π, h = E[(r − r̄)/(s + ε)] / |y|",
            closed=closed.standardised(
                partial(closed.sample, epsilon=epsilon),
                closed.over_length,
                "w(p)·(∇E[r/|y|] − p·∇E[1/|y|]), w = √((N−1)/N)·E[√(F/(1+M)) + √(M/(1+F))], M ~ Bin(N−1, p), F = N−1−M",
            ),
        ),
        equation="κ = clip(ρ; A)·A / (S·|oᵢ|), A = (rᵢ − r̄)/(s + ε), s over N−1",
        source="verl, compute_grpo_outcome_advantage",
    )


def dr_grpo(clip_low: float = 0.2, clip_high: float = 0.2) -> Objective:
    """Dr. GRPO: GRPO without the two divisions that bend the gradient, by deviation and by own length.

    Args: clip_low, clip_high, the band of the ratio, ≥ 0.
    Raises: ValueError for an option out of range.
    """
    at_least(0, clip_low=clip_low, clip_high=clip_high)
    return Objective(
        name="dr_grpo",
        advantage=advantages.mean_centred,
        ratio=partial(ratios.ppo_clip, low=clip_low, high=clip_high),
        correction=ratios.no_correction,
        aggregate=aggregate.constant,
        target=PolicyGradient(weight=_centred_share, text="(N−1)/(N·L_max) ∇p"),
        off_policy=OffPolicy.TOKEN,
        singleton=Singleton.ZERO,
        min_group=2,
        baseline=Baseline.GROUP,
        equation="κ = clip(ρ; A)·A / (S·L_max), A = rᵢ − r̄",
        source="Liu et al. 2025, arXiv 2503.20783",
    )


def one(p: float, group: int, max_tokens: int) -> float:
    return 1.0


def _others_share(p: float, group: int, max_tokens: int) -> float:
    return (group - 1) / group


def _centred_share(p: float, group: int, max_tokens: int) -> float:
    return (group - 1) / (group * max_tokens)


def standard_score(reward: float, others: Sequence[float], *, epsilon: float) -> float:
    rewards = [reward, *others]
    if min(rewards) == max(rewards):
        return 0.0
    mean = math.fsum(rewards) / len(rewards)
    return (reward - mean) / (math.sqrt(math.fsum((value - mean) ** 2 for value in rewards) / len(rewards)) + epsilon)


def sample_score(reward: float, others: Sequence[float], *, epsilon: float) -> float:
    rewards = [reward, *others]
    if min(rewards) == max(rewards):
        return 0.0
    mean = math.fsum(rewards) / len(rewards)
    return (reward - mean) / (math.sqrt(math.fsum((value - mean) ** 2 for value in rewards) / len(others)) + epsilon)
