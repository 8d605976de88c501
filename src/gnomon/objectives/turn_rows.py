"""Rows whose credit differs from turn to turn, or between the slices of a budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from gnomon.objectives import advantages, aggregate, closed, ratios, turn_credit
from gnomon.objectives.group_rows import reinforce
from gnomon.objectives.row import (
    Baseline,
    Need,
    Noise,
    Objective,
    OffPolicy,
    Scope,
    Singleton,
    at_least,
    within,
)
from gnomon.objectives.target import Seen, TokenShape
from gnomon.objectives.token_rows import LAMBDA_RETURN

__all__ = ["brpo", "brpo_released", "rebn", "turn_ppo", "turn_reinforce", "turn_reinforce_discounted"]


def turn_reinforce(gamma: float = 1.0) -> Objective:
    """REINFORCE over turns as it is mostly written: every turn by what is earned from it on, discounted to it.

    For γ < 1 it is not the gradient of the discounted return: turns are visited undiscounted.

    Args: gamma, discount per turn, 0 … 1.
    Raises: ValueError for an option out of range.
    """
    within(0, 1, gamma=gamma)
    return replace(
        reinforce(),
        name="turn_reinforce",
        credit=partial(turn_credit.turn_returns, gamma=gamma),
        target=TokenShape(
            credit=partial(_summed_returns, gamma=gamma),
            text="Σ π hₜ ∇log π, hₜ = Σ_{k≥t} γ^{k−t} r_k",
            closed=closed.climbs(partial(_return, gamma=1.0), "∇E[Σ_k r_k]") if gamma == 1 else None,
        ),
        noise=Noise.EVEN,
        equation="κ = Σ_{k≥t} γ^{k−t} r_k / S",
        source="axon-rl/gem, examples/train_oat, without its normalisation",
    )


def turn_reinforce_discounted(gamma: float = 0.9) -> Objective:
    """REINFORCE over turns with the weight γᵗ of each: the gradient of the discounted return.

    Args: gamma, discount per turn, 0 … 1.
    Raises: ValueError for an option out of range.
    """
    return replace(
        turn_reinforce(gamma),
        name="turn_reinforce_discounted",
        credit=partial(turn_credit.discounted_turn_returns, gamma=gamma),
        target=TokenShape(
            credit=partial(_summed_from_the_start, gamma=gamma),
            text="Σ π hₜ ∇log π, hₜ = Σ_{k≥t} γᵏ r_k",
            closed=closed.climbs(partial(_return, gamma=gamma), "∇E[Σ_k γᵏ r_k]"),
        ),
        equation="κ = γᵗ Σ_{k≥t} γ^{k−t} r_k / S",
        source="Nota & Thomas 2020, arXiv 1906.07073",
    )


def turn_ppo(gamma: float = 1.0, lam: float = 1.0, clip_low: float = 0.2, clip_high: float = 0.2) -> Objective:
    """PPO over turns: generalised advantage estimates with a critic read as each turn begins.

    Args: gamma, discount per turn, 0 … 1; lam, λ, 0 … 1; clip_low, clip_high, the band of the ratio, ≥ 0.
    Raises: ValueError for an option out of range.
    """
    within(0, 1, gamma=gamma, lam=lam)
    at_least(0, clip_low=clip_low, clip_high=clip_high)
    return Objective(
        name="turn_ppo",
        advantage=advantages.raw,
        credit=partial(turn_credit.turn_gae, gamma=gamma, lam=lam),
        needs=frozenset({Need.VALUES}),
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
        min_group=1,
        baseline=Baseline.CRITIC,
        noise=Noise.EVEN if lam == 1 else Noise.MOVES,
        equation="κ = clip(ρ; A)·A / (S·L_max), A_t = Σ_l (γλ)ˡ δ_{t+l}, δ_t = r_t + γV_{t+1} − V_t over turns",
        source="Schulman et al. 2016, arXiv 1506.02438, over turns as in sail-sg/oat, ppo_multiturn",
    )


def rebn(gamma: float = 1.0, clip_low: float = 0.2, clip_high: float = 0.2, epsilon: float = 1e-9) -> Objective:
    """ReBN: returns of turns, standardised over every turn of the step; no group is compared with itself.

    Args: gamma, discount per turn, 0 … 1; clip_low, clip_high, the band of the ratio, ≥ 0; epsilon, added to the
        deviation, ≥ 0.
    Raises: ValueError for an option out of range.
    Differs: the source takes the mean over turns of a sum over tokens, here the sum is over all turns of a rollout.
    """
    within(0, 1, gamma=gamma)
    at_least(0, clip_low=clip_low, clip_high=clip_high, epsilon=epsilon)
    return Objective(
        name="rebn",
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
        min_group=1,
        baseline=Baseline.STEP,
        scope=Scope.STEP,
        noise=Noise.EVEN,
        equation="κ = clip(ρ; A)·A / (S·L_max), A = (G − Ḡ)/(σ + ε) over the turns of the step",
        source="GEM 2025, arXiv 2510.01051; axon-rl/gem, examples/train_oat",
    )


def brpo(clip_low: float = 0.2, clip_high: float = 0.2) -> Objective:
    """BRPO: tokens by the scores at the budgets still to come, over own past scores and the others' mean.

    It climbs the score at a budget drawn evenly. The policy that answers when cut off is trained apart.

    Args: clip_low, clip_high, the band of the ratio, ≥ 0.
    Raises: ValueError for an option out of range.
    Differs: `brpo_released` has the rollout itself in the mean of its group.
    """
    at_least(0, clip_low=clip_low, clip_high=clip_high)
    return Objective(
        name="brpo",
        advantage=advantages.leave_one_out,
        credit=turn_credit.budget_credit,
        ratio=partial(ratios.ppo_clip, low=clip_low, high=clip_high),
        correction=ratios.no_correction,
        aggregate=aggregate.constant,
        target=TokenShape(
            credit=partial(_constant_budget, own_share=0.0),
            text="Σ π hⱼ ∇log π, hⱼ = E[Aⱼ] / L_max",
            closed=closed.climbs(_mean_score, "Σⱼ ∇E[r(z ≤ bⱼ)] / (m·L_max)"),
        ),
        off_policy=OffPolicy.TOKEN,
        singleton=Singleton.REFUSED,
        min_group=2,
        baseline=Baseline.OTHERS,
        equation="κ = clip(ρ; A)·A / (S·L_max), Aⱼ = Rⱼ − (j·V1ⱼ + (m−j)·V2ⱼ)/m, Rⱼ = Σ_{k≥j} r_k/m, V2 of the others",
        source="Qi et al. 2025, arXiv 2505.13438",
    )


def brpo_released(clip_low: float = 0.2, clip_high: float = 0.2) -> Objective:
    """BRPO as released: the mean of the group has the rollout in it, which shrinks early segments most.

    Args: clip_low, clip_high, the band of the ratio, ≥ 0.
    Raises: ValueError for an option out of range.
    """
    return replace(
        brpo(clip_low, clip_high),
        name="brpo_released",
        advantage=advantages.mean_centred,
        target=TokenShape(
            credit=partial(_constant_budget, own_share=1.0),
            text="Σ π hⱼ ∇log π, hⱼ = E[Aⱼ] / L_max",
            closed=closed.budgets_with_oneself("Σ π hⱼ ∇log π, hⱼ = (1 − (m−j)/(m·N))·Σ_{k≥j} r_k / (m·L_max)"),
        ),
        singleton=Singleton.ZERO,
        min_group=1,
        baseline=Baseline.GROUP,
        equation="κ = clip(ρ; A)·A / (S·L_max), Aⱼ = Rⱼ − (j·V1ⱼ + (m−j)·V2ⱼ)/m, Rⱼ = Σ_{k≥j} r_k/m, V2 of the group",
        source="sail-sg/AnytimeReasoner, brpo.py",
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
    budgets, found = len(own.early), []
    for segment in range(own.length):
        to_come = math.fsum(own.early[segment:]) / budgets
        rest = math.fsum(math.fsum(other.early[segment:]) / budgets for other in others)
        group = (rest + own_share * to_come) / (len(others) + own_share)
        past = own.early[:segment]
        known = math.fsum(2**k * score for k, score in enumerate(past)) / max(2**segment - 1, 1)
        known *= (budgets - segment) / budgets
        credit = to_come - (segment * known + (budgets - segment) * group) / budgets
        found.append(credit / (max_tokens * (1 + len(others))))
    return found
