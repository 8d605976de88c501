"""Rows whose credit differs from turn to turn, or between the slices of a budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from gnomon.objectives import advantages, aggregate, closed, ratios, turn_credit
from gnomon.objectives.group_rows import reinforce
from gnomon.objectives.row import Baseline, Noise, Objective, OffPolicy, Scope, Singleton, row
from gnomon.objectives.target import Seen, TokenShape
from gnomon.objectives.token_rows import LAMBDA_RETURN

__all__ = ["brpo", "brpo_released", "rebn", "turn_ppo", "turn_reinforce", "turn_reinforce_discounted"]


@row
def turn_reinforce(*, gamma: float) -> Objective:
    """For γ < 1 it is not the gradient of the discounted return: turns are visited undiscounted."""
    return replace(
        reinforce(),
        credit=partial(turn_credit.turn_returns, gamma=gamma),
        target=TokenShape(
            credit=partial(_summed_returns, gamma=gamma),
            text="Σ π hₜ ∇log π, hₜ = Σ_{k≥t} γ^{k−t} r_k",
            closed=closed.of_value(partial(_return, gamma=1.0), "∇E[Σ_k r_k]") if gamma == 1 else None,
        ),
        noise=Noise.EVEN,
        equation="κ = Σ_{k≥t} γ^{k−t} r_k / S",
    )


@row
def turn_reinforce_discounted(*, gamma: float) -> Objective:
    return replace(
        turn_reinforce(gamma),
        credit=partial(turn_credit.discounted_turn_returns, gamma=gamma),
        target=TokenShape(
            credit=partial(_summed_from_the_start, gamma=gamma),
            text="Σ π hₜ ∇log π, hₜ = Σ_{k≥t} γᵏ r_k",
            closed=closed.of_value(partial(_return, gamma=gamma), "∇E[Σ_k γᵏ r_k]"),
        ),
        equation="κ = γᵗ Σ_{k≥t} γ^{k−t} r_k / S",
    )


@row
def turn_ppo(*, gamma: float, lam: float, clip_low: float, clip_high: float) -> Objective:
    return Objective(
        advantage=advantages.raw,
        credit=partial(turn_credit.turn_gae, gamma=gamma, lam=lam),
        returns=partial(turn_credit.turn_gae_returns, gamma=gamma, lam=lam),
        ratio=partial(ratios.ppo_clip, low=clip_low, high=clip_high),
        correction=ratios.no_correction,
        aggregate=aggregate.constant,
        target=TokenShape(
            credit=partial(_constant_gae, gamma=gamma, lam=lam),
            text="Σ π hₜ ∇log π, hₜ = A / L_max of the turn",
            closed=closed.lambda_return(
                gamma, lam, "∇E[Σ_k r_k] / L_max" if gamma == lam == 1 else LAMBDA_RETURN, turns=True
            ),
        ),
        off_policy=OffPolicy.TOKEN,
        singleton=Singleton.RAW,
        baseline=Baseline.CRITIC,
        noise=Noise.EVEN if lam == 1 else Noise.MOVES,
        equation="κ = clip(ρ; A)·A / (S·L_max), A_t = Σ_l (γλ)ˡ δ_{t+l}, δ_t = r_t + γV_{t+1} − V_t over turns",
    )


@row
def rebn(*, gamma: float, clip_low: float, clip_high: float, epsilon: float) -> Objective:
    """Differs: the source averages over turns a sum over tokens; here the sum is over all turns of a rollout."""
    return Objective(
        advantage=advantages.raw,
        credit=partial(turn_credit.standardised_turn_returns, gamma=gamma, epsilon=epsilon),
        ratio=partial(ratios.ppo_clip, low=clip_low, high=clip_high),
        correction=ratios.no_correction,
        aggregate=aggregate.constant,
        target=TokenShape(
            credit=partial(_constant_standardised, gamma=gamma, epsilon=epsilon),
            text="Σ π hₜ ∇log π, hₜ = N·E[(G − Ḡ)/(σ + ε)] / (S·L_max) of the turn",
            closed=closed.standardised(
                partial(closed.population, epsilon=epsilon),
                closed.over_limit,
                "Σ π hₜ ∇log π, hₜ = E[(G − Ḡ)/(σ + ε)] / L_max of the turn; for one turn of one token w(p)/L_max ∇p, "
                "w = E[√(F/(1+M)) + √(M/(1+F))], M ~ Bin(N−1, p), F = N−1−M",
                one_token=True,
            ),
        ),
        off_policy=OffPolicy.TOKEN,
        singleton=Singleton.ZERO,
        baseline=Baseline.STEP,
        scope=Scope.STEP,
        noise=Noise.EVEN,
        equation="κ = clip(ρ; A)·A / (S·L_max), A = (G − Ḡ)/(σ + ε) over the turns of the step",
    )


@row
def brpo(*, clip_low: float, clip_high: float) -> Objective:
    """It maximises the score at a uniformly drawn budget. The policy that answers after truncation has its own loss.

    Differs: `brpo_released` has the rollout itself in the mean of its group.
    """
    return Objective(
        advantage=advantages.leave_one_out,
        credit=turn_credit.budget_credit,
        ratio=partial(ratios.ppo_clip, low=clip_low, high=clip_high),
        correction=ratios.no_correction,
        aggregate=aggregate.constant,
        target=TokenShape(
            credit=partial(_constant_budget, own_share=0.0),
            text="Σ π hⱼ ∇log π, hⱼ = E[Aⱼ] / L_max",
            closed=closed.of_value(_mean_score, "Σⱼ ∇E[r(z ≤ bⱼ)] / (m·L_max)"),
        ),
        off_policy=OffPolicy.TOKEN,
        singleton=Singleton.REFUSED,
        baseline=Baseline.OTHERS,
        equation="κ = clip(ρ; A)·A / (S·L_max), Aⱼ = Rⱼ − (j·V1ⱼ + (m−j)·V2ⱼ)/m, Rⱼ = Σ_{k≥j} r_k/m, V2 of the others",
    )


@row
def brpo_released(*, clip_low: float, clip_high: float) -> Objective:
    return replace(
        brpo(clip_low, clip_high),
        advantage=advantages.mean_centred,
        target=TokenShape(
            credit=partial(_constant_budget, own_share=1.0),
            text="Σ π hⱼ ∇log π, hⱼ = E[Aⱼ] / L_max",
            closed=closed.budgets_with_oneself("Σ π hⱼ ∇log π, hⱼ = (1 − (m−j)/(m·N))·Σ_{k≥j} r_k / (m·L_max)"),
        ),
        singleton=Singleton.ZERO,
        baseline=Baseline.GROUP,
        equation="κ = clip(ρ; A)·A / (S·L_max), Aⱼ = Rⱼ − (j·V1ⱼ + (m−j)·V2ⱼ)/m, Rⱼ = Σ_{k≥j} r_k/m, V2 of the group",
    )


def _returns(own: Seen, gamma: float) -> list[float]:
    return [
        math.fsum(gamma ** (later - turn) * own.early[later] for later in range(turn, own.length))
        for turn in range(own.length)
    ]


def _summed_returns(own: Seen, others: Sequence[Seen], max_tokens: int, *, gamma: float) -> list[float]:
    return [value / (1 + len(others)) for value in _returns(own, gamma)]


def _summed_from_the_start(own: Seen, others: Sequence[Seen], max_tokens: int, *, gamma: float) -> list[float]:
    earned = [gamma**turn * own.early[turn] for turn in range(own.length)]
    return [math.fsum(earned[turn:]) / (1 + len(others)) for turn in range(own.length)]


def _return(own: Seen, max_tokens: int, *, gamma: float) -> float:
    return math.fsum(gamma**turn * own.early[turn] for turn in range(own.length))


def _mean_score(own: Seen, max_tokens: int) -> float:
    return math.fsum(own.early) / (len(own.early) * max_tokens)


def _constant_gae(own: Seen, others: Sequence[Seen], max_tokens: int, *, gamma: float, lam: float) -> list[float]:
    values = [*own.values, 0.0]
    surprise = [own.early[turn] + gamma * values[turn + 1] - values[turn] for turn in range(own.length)]
    return [
        math.fsum((gamma * lam) ** (later - turn) * surprise[later] for later in range(turn, own.length))
        / (max_tokens * (1 + len(others)))
        for turn in range(own.length)
    ]


def _constant_standardised(
    own: Seen, others: Sequence[Seen], max_tokens: int, *, gamma: float, epsilon: float
) -> list[float]:
    mine = _returns(own, gamma)
    every = [*mine, *(value for other in others for value in _returns(other, gamma))]
    if min(every) == max(every):
        return [0.0] * own.length
    mean = math.fsum(every) / len(every)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in every) / len(every))
    return [(value - mean) / ((deviation + epsilon) * max_tokens * (1 + len(others))) for value in mine]


def _constant_budget(own: Seen, others: Sequence[Seen], max_tokens: int, *, own_share: float) -> list[float]:
    budgets, credits = len(own.early), []
    for segment in range(own.length):
        to_come = math.fsum(own.early[segment:]) / budgets
        rest = math.fsum(math.fsum(other.early[segment:]) / budgets for other in others)
        group = (rest + own_share * to_come) / (len(others) + own_share)
        past = own.early[:segment]
        known = math.fsum(2**k * score for k, score in enumerate(past)) / max(2**segment - 1, 1)
        known *= (budgets - segment) / budgets
        credit = to_come - (segment * known + (budgets - segment) * group) / budgets
        credits.append(credit / (max_tokens * (1 + len(others))))
    return credits
