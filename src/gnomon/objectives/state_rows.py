"""Rows whose credit compares turns that reply to the same observation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from gnomon.objectives import advantages, closed_groups, turn_credit
from gnomon.objectives.group_rows import dr_grpo
from gnomon.objectives.row import Baseline, Noise, Objective, row
from gnomon.objectives.target import Seen, TokenShape

__all__ = ["gigpo", "hgpo"]


@row
def gigpo(*, gamma: float, weight: float, clip_low: float, clip_high: float) -> Objective:
    """A turn is compared with other turns in the same situation, without a critic and without further rollouts. A turn
    is in the mean that it is compared with, and a rollout that comes back to a state meets itself there.

    Differs: returns are centred and not divided by a deviation (F_norm = 1, the released `mean_norm`); and a sum over
        tokens by a constant, where released code takes their mean.
    """
    return replace(
        dr_grpo(clip_low, clip_high),
        advantage=advantages.mean_centred,
        credit=partial(turn_credit.state_centred, gamma=gamma, weight=weight),
        target=TokenShape(
            credit=partial(_state_centred, gamma=gamma, weight=weight),
            text="Σ π hₜ ∇log π, hₜ = E[R − R̄ + ω·(G_t − mean G in the state)] / L_max",
            closed=closed_groups.states(
                gamma,
                [1.0],
                "Σ π hₜ ∇log π, hₜ = ((1 − 1/N)(R − E[R]) + ω·(G_t − E[(g + S)/(k + n)])) / L_max; k own visits of the "
                "state and g their returns, n and S those of the others",
                weight=weight,
                rollouts=1.0,
            ),
        ),
        baseline=Baseline.STATE,
        noise=Noise.EVEN,
        equation="κ = clip(ρ; A)·A / (S·L_max), A_t = Rᵢ − R̄ + ω·(G_t − mean G over turns in the same state), "
        "G_t = Σ_{k≥t} γ^{k−t} r_k",
    )


@row
def hgpo(*, gamma: float, history: int, alpha: float, clip_low: float, clip_high: float) -> Objective:
    """Turns that share more of their past are fewer and more alike: their mean is nearer to the value of the situation,
    and scatters more.

    Differs: as `gigpo`.
    """
    weights = [(depth + 2) ** alpha for depth in range(history + 1)]
    return replace(
        gigpo(gamma, 1.0, clip_low, clip_high),
        advantage=advantages.raw,
        credit=partial(turn_credit.history_centred, gamma=gamma, history=history, alpha=alpha),
        target=TokenShape(
            credit=partial(_over_histories, gamma=gamma, weights=weights),
            text="Σ π hₜ ∇log π, hₜ = E[Σ_h w_h·(G_t − mean_h G) / Σ_h w_h] / L_max",
            closed=closed_groups.states(
                gamma,
                weights,
                "Σ π hₜ ∇log π, hₜ = E[Σ_h w_h·(G_t − (g_h + S_h)/(k_h + n_h)) / Σ_h w_h] / L_max over h with "
                "k_h + n_h > 1; k_h own turns with the same last h + 1 observations and g_h their returns, n_h and S_h "
                "those of the others",
                weight=1.0,
                rollouts=0.0,
            ),
        ),
        equation="κ = clip(ρ; A)·A / (S·L_max), A_t = Σ_h w_h·(G_t − mean_h G)/Σ_h w_h, mean_h over turns with the "
        "same last h + 1 observations, w_h = (h + 2)^α, G_t = Σ_{k≥t} γ^{k−t} r_k",
    )


def _returns(rollout: Seen, gamma: float) -> list[float]:
    return [
        math.fsum(gamma ** (later - turn) * rollout.early[later] for later in range(turn, rollout.length))
        for turn in range(rollout.length)
    ]


def _mean_of(own: Seen, turn: int, company: Sequence[Seen], gamma: float, depth: int) -> tuple[int, float]:
    """How many turns of the company have the same last observations, and what they earn on average."""
    past = own.observations[turn - depth : turn + 1]
    returns = [
        value
        for rollout in company
        for at, value in enumerate(_returns(rollout, gamma))
        if at >= depth and rollout.observations[at - depth : at + 1] == past
    ]
    return len(returns), math.fsum(returns) / len(returns)


def _state_centred(own: Seen, others: Sequence[Seen], max_tokens: int, *, gamma: float, weight: float) -> list[float]:
    company = [own, *others]
    whole = math.fsum(own.early[: own.length])
    mean = math.fsum(math.fsum(rollout.early[: rollout.length]) for rollout in company) / len(company)
    apart = [value - _mean_of(own, turn, company, gamma, 0)[1] for turn, value in enumerate(_returns(own, gamma))]
    return [(whole - mean + weight * value) / (max_tokens * len(company)) for value in apart]


def _over_histories(
    own: Seen, others: Sequence[Seen], max_tokens: int, *, gamma: float, weights: Sequence[float]
) -> list[float]:
    company, credits = [own, *others], []
    for turn, value in enumerate(_returns(own, gamma)):
        total = share = 0.0
        for depth, weight in enumerate(weights[: turn + 1]):
            count, mean = _mean_of(own, turn, company, gamma, depth)
            if count > 1:
                total, share = total + weight * (value - mean), share + weight
        credits.append(total / (share or 1.0) / (max_tokens * len(company)))
    return credits
