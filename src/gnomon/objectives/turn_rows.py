"""Rows whose credit differs from turn to turn, or between the slices of a budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from gnomon.objectives import advantages, aggregate, closed, closed_groups, ratios, turn_credit
from gnomon.objectives.group_rows import dr_grpo, reinforce
from gnomon.objectives.row import Baseline, Noise, Objective, OffPolicy, Scope, Singleton, row
from gnomon.objectives.target import Seen, TokenShape
from gnomon.objectives.token_rows import LAMBDA_RETURN

__all__ = ["brpo", "rebn", "turn_grpo", "turn_ppo", "turn_reinforce"]


@row
def turn_reinforce(*, gamma: float, turns: str) -> Objective:
    """For γ < 1 it is not the gradient of the discounted return, unless `turns` are discounted too: they are visited
    undiscounted.
    """
    usual = replace(
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
    if turns == "alike":
        return usual
    return replace(
        usual,
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


COMPARED_WITH = {
    "rollouts": "mean G_k of the group, 0 where a rollout has ended",
    "reached": "mean G_k of the rollouts that reach turn k",
    "turns": "mean G over the turns of the group",
    "rewards": "means of r_l over the rollouts that reach turn l ≥ k",
}
"""What is taken off, by the option `compared`."""
TURN_TARGETS = {
    "rollouts": "(1 − 1/N) Σ π G_k ∇log π / L_max over turns k, at γ = 1 (1 − 1/N) ∇E[Σ_k r_k] / L_max",
    "reached": "Σ π w_k G_k ∇log π / L_max over turns k, w = 1 − (1 − (1−q)ᴺ)/(N q), q the chance to reach turn k",
    "turns": "Σ π (G_k − E[(g + S)/(|y| + n)]) ∇log π / L_max, g own returns, n and S turns and returns of the others",
    "rewards": "Σ π h_k ∇log π / L_max, h_k = Σ_{l≥k} γ^{l−k} w_l (r_l − E[r_l | l reached])",
}
"""The expected gradient, by the option `compared`."""


@row
def turn_grpo(
    *, gamma: float, compared: str, scale: str, clip_low: float, clip_high: float, epsilon: float
) -> Objective:
    """Where the policy decides when it stops, the mean must count the rollouts that have stopped: only `rollouts`
    maximises what is earned.

    Differs: the source divides by the deviation and has two turns.
    """
    standard = partial(advantages.standardise, epsilon=epsilon)
    text = f"Σ π hₖ ∇log π, hₖ = E[A_k] / L_max, A_k = G_k − {COMPARED_WITH[compared]}"
    return replace(
        dr_grpo(clip_low, clip_high),
        advantage=advantages.mean_centred if scale == "none" else standard,
        credit=partial(turn_credit.COMPARED[compared], gamma=gamma),
        target=TokenShape(
            credit=partial(
                _compared_turns, compared=compared, gamma=gamma, epsilon=epsilon if scale == "deviation" else None
            ),
            text=text,
            closed=closed_groups.turns(compared, gamma, TURN_TARGETS[compared]) if scale == "none" else None,
        ),
        baseline=Baseline.TURNS,
        noise=Noise.STILL if compared == "rewards" else Noise.EVEN,
        equation=f"κ = clip(ρ; A)·A / (S·L_max), A_k = G_k − {COMPARED_WITH[compared]}, G_k = Σ_{{l≥k}} γ^{{l−k}} r_l"
        + (", divided by their deviation + ε" if scale == "deviation" else ""),
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
            closed=closed.standardised_form(
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
def brpo(*, clip_low: float, clip_high: float, baseline: str) -> Objective:
    """It maximises the score at a uniformly drawn budget. The policy that answers after truncation has its own loss."""
    published = Objective(
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
    if baseline == "others":
        return published
    return replace(
        published,
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


def _compared_turns(
    own: Seen, others: Sequence[Seen], max_tokens: int, *, compared: str, gamma: float, epsilon: float | None
) -> list[float]:
    company = [own, *others]
    if not others:
        return [0.0] * own.length

    def apart(value: float, among: Sequence[float]) -> float:
        if epsilon is None or min(among) == max(among):
            return value - math.fsum(among) / len(among)
        mean = math.fsum(among) / len(among)
        return (value - mean) / (math.sqrt(math.fsum((x - mean) ** 2 for x in among) / len(among)) + epsilon)

    mine, every = _returns(own, gamma), [_returns(rollout, gamma) for rollout in company]
    if compared == "turns":
        credits = [apart(value, [x for returns in every for x in returns]) for value in mine]
    elif compared == "rollouts":
        credits = [apart(mine[k], [(*returns, *[0.0] * max_tokens)[k] for returns in every]) for k in range(own.length)]
    elif compared == "reached":
        credits = [apart(mine[k], [returns[k] for returns in every if len(returns) > k]) for k in range(own.length)]
    else:
        paid = [
            apart(own.early[k], [rollout.early[k] for rollout in company if rollout.length > k])
            for k in range(own.length)
        ]
        credits = [
            math.fsum(gamma ** (later - k) * paid[later] for later in range(k, own.length)) for k in range(own.length)
        ]
    return [value / (max_tokens * len(company)) for value in credits]


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
        past_mean = math.fsum(2**k * score for k, score in enumerate(past)) / max(2**segment - 1, 1)
        past_mean *= (budgets - segment) / budgets
        credit = to_come - (segment * past_mean + (budgets - segment) * group) / budgets
        credits.append(credit / (max_tokens * (1 + len(others))))
    return credits
