"""Rows that weigh a success and a failure by constants, or every reward by its exponential."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from gnomon.objectives import advantages, closed, counts, ratios
from gnomon.objectives.group_rows import reinforce
from gnomon.objectives.row import Baseline, Objective, OffPolicy, Singleton, row
from gnomon.objectives.target import FrozenShape, PolicyGradient, Seen

__all__ = ["raft_pp", "reinforce_rej", "tilted", "w_reinforce"]


@row
def w_reinforce(*, success: float, clip_low: float, clip_high: float, failure: float) -> Objective:
    """Differs: the released code takes the mean over all tokens of the step, which weighs answers by their length; here
    they are summed, and PSR, NSR and W-REINFORCE have one direction: they are REINFORCE with different constant
    baselines.
    """
    if failure:
        singleton = Singleton.SHIFTED if success == 0 and failure == 1 else Singleton.AFFINE
    else:
        singleton = Singleton.RAW if success == 1 else Singleton.SCALED
    weighed = "(1 + λ) ∇p" if failure == 1 else f"({failure:g} + λ) ∇p"
    lowered = "" if not failure else " − (1 − rᵢ)" if failure == 1 else f" − {failure:g}·(1 − rᵢ)"
    return replace(
        _outcomes(success, 0.0 - failure, clip_low, clip_high),
        target=PolicyGradient(weight=partial(_scale, by=failure + success), text=weighed),
        singleton=singleton,
        equation=f"κ = clip(ρ; A)·A / S, A = λ·rᵢ{lowered}",
    )


@row
def raft_pp(*, clip_low: float, clip_high: float) -> Objective:
    """Differs: the released code takes the mean over tokens; here they are summed."""
    return replace(
        reinforce(),
        advantage=advantages.positive_part,
        ratio=partial(ratios.ppo_clip, low=clip_low, high=clip_high),
        target=closed.of_value(_positive_part, "∇E[max(r, 0)], ∇p for rewards 0 and 1"),
        off_policy=OffPolicy.TOKEN,
        equation="κ = clip(ρ; A)·A / S, A = max(rᵢ, 0)",
    )


@row
def reinforce_rej(*, failure: float, clip_low: float, clip_high: float) -> Objective:
    """Differs: a failure earns −1 in the paper, 0 in an environment here: `failure` says what it counts. The released
    code keeps a group of one.
    """
    weight = partial(counts.rejected_weight, success=1.0, failure=failure)
    return replace(
        _outcomes(1.0, failure, clip_low, clip_high),
        advantage=partial(advantages.count_advantage, weight=weight),
        target=PolicyGradient(
            weight=partial(_rejection_weight, failure=failure),
            text=f"(1 − p^{{N−1}} + {-failure:g}·(1 − (1−p)^{{N−1}})) ∇p" if failure else "(1 − p^{N−1}) ∇p",
        ),
        singleton=Singleton.ZERO,
        equation="κ = clip(ρ; A)·A / S, A = (rᵢ + failure·(1 − rᵢ))·1[0 < K < N]",
    )


@row
def tilted(*, beta: float, clip_low: float, clip_high: float, baseline: str) -> Objective:
    """For large groups it is family C of `rl2ml` at the parameter 1 − e^−β, times (1 − e^−β)/β. With `others`, the
    rollout itself is not in the mean: the expectation is a polynomial of degree N−1, and near β = 0 the row is `rloo`.

    Differs: the default of β is a choice made here.
    """
    released = replace(
        reinforce(),
        advantage=partial(advantages.relative_exponential, beta=beta),
        ratio=partial(ratios.ppo_clip, low=clip_low, high=clip_high),
        target=FrozenShape(
            advantage=partial(_tilt, beta=beta),
            share=closed.whole,
            text="Σ π h ∇log π, h = E[e^{βr}/mean_j e^{βrⱼ}]/β",
            closed=closed.of_counts(
                _of_tilted(beta, mine=1),
                _of_tilted(beta, mine=0),
                "w(p) ∇p, w = E[e^β/D(1+M) − 1/D(M)]/β, D(K) = 1 + (e^β − 1)·K/N, M ~ Bin(N−1, p)",
            ),
        ),
        off_policy=OffPolicy.TOKEN,
        singleton=Singleton.ZERO,
        baseline=Baseline.GROUP,
        equation="κ = clip(ρ; A)·A / S, A = (e^{βrᵢ}/mean_j e^{βrⱼ} − 1)/β",
    )
    if baseline == "group":
        return released
    return replace(
        released,
        advantage=partial(advantages.relative_exponential_leave_one_out, beta=beta),
        target=FrozenShape(
            advantage=partial(_tilted_by_others, beta=beta),
            share=closed.whole,
            text="Σ π h ∇log π, h = E[e^{βr}/mean_{j≠i} e^{βrⱼ}]/β",
            closed=closed.of_counts(
                _of_others_tilted(beta, mine=1),
                _of_others_tilted(beta, mine=0),
                "w(p) ∇p, w = E[(e^β − 1)/(β·(1 + (e^β − 1)·M/(N−1)))], M ~ Bin(N−1, p)",
            ),
        ),
        singleton=Singleton.REFUSED,
        baseline=Baseline.OTHERS,
        equation="κ = clip(ρ; A)·A / S, A = (e^{βrᵢ}/mean_{j≠i} e^{βrⱼ} − 1)/β",
    )


def _outcomes(success: float, failure: float, clip_low: float, clip_high: float) -> Objective:
    return replace(
        reinforce(),
        advantage=partial(
            advantages.count_advantage, weight=partial(counts.outcome_weight, success=success, failure=failure)
        ),
        ratio=partial(ratios.ppo_clip, low=clip_low, high=clip_high),
        off_policy=OffPolicy.TOKEN,
    )


def _scale(p: float, group: int, max_tokens: int, *, by: float) -> float:
    return by


def _rejection_weight(p: float, group: int, max_tokens: int, *, failure: float) -> float:
    return 1 - p ** (group - 1) - failure * (1 - (1 - p) ** (group - 1))


def _positive_part(own: Seen, max_tokens: int) -> float:
    return max(own.reward, 0.0)


def _tilt(reward: float, others: Sequence[float], *, beta: float) -> float:
    every = [math.exp(beta * value) for value in (reward, *others)]
    return (math.exp(beta * reward) * len(every) / math.fsum(every) - 1) / beta


def _tilted_by_others(reward: float, others: Sequence[float], *, beta: float) -> float:
    if not others:
        return 0.0
    mean = math.fsum(math.exp(beta * value) for value in others) / len(others)
    return (math.exp(beta * reward) / mean - 1) / beta


def _of_tilted(beta: float, *, mine: int) -> Callable[[int, int], float]:
    """e^{βr}/(β·D(K)), D(K) = 1 + (e^β − 1)·K/N."""
    return partial(_over_mean, beta=beta, mine=mine)


def _over_mean(right: int, group: int, *, beta: float, mine: int) -> float:
    return math.exp(beta * mine) / (beta * (1 + math.expm1(beta) * right / group))


def _of_others_tilted(beta: float, *, mine: int) -> Callable[[int, int], float]:
    """e^{βr}/(β·D), D of the N−1 others."""
    return partial(_over_mean_of_others, beta=beta, mine=mine)


def _over_mean_of_others(right: int, group: int, *, beta: float, mine: int) -> float:
    return _over_mean(right - mine, group - 1, beta=beta, mine=mine)
