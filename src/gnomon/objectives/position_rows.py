"""Rows whose credit has a baseline of its own at every position."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from gnomon.objectives import closed, closed_groups, token_credit
from gnomon.objectives.group_rows import reinforce
from gnomon.objectives.row import Objective, row
from gnomon.objectives.target import Seen, TokenShape

__all__ = ["otb"]


@row
def otb(*, baseline: str) -> Objective:
    """At every position the baseline of least variance, if scores of tokens are uncorrelated. It contains the rollout
    itself, which bends the gradient; and the tail of the longest rollout, where nobody else writes, has no baseline, so
    that it is raised even where all rollouts earn the same. With `others`, what is taken off a token is known without
    it, so the expectation is the policy gradient.

    Differs: for one update per batch. Positions are those of the policy's own tokens over all turns, as in verl's
        `tir_optimal_token_baseline`; for one turn that is its `optimal_token_baseline`.
    """
    released = replace(
        reinforce(),
        credit=token_credit.optimally_centred,
        target=TokenShape(
            credit=_optimally_centred,
            text="Σ π hₜ ∇log π, hₜ = r − E[Bₜ]",
            closed=closed_groups.position_baseline(
                "Σ π hₜ ∇log π, hₜ = r − E[1[n > 0]·(r·w + U)/(w + W)]; w the squared score so far, n the other "
                "rollouts with a token at t, W the sum of theirs, U that of rewards times theirs"
            ),
        ),
        equation="κ = (rᵢ − Bₜ) / S, Bₜ = Σⱼ rⱼW_jt/Σⱼ W_jt, W_t = Σ_{s≤t} (1 − 2π(yₛ) + Σπ²), 0 where no other writes",
    )
    if baseline == "group":
        return released
    return replace(
        released,
        credit=token_credit.others_optimally_centred,
        target=TokenShape(
            credit=_others_optimally_centred,
            text="Σ π hₜ ∇log π, hₜ = r − E[Bₜ of the others]",
            closed=closed.of_value(_reward, "∇p"),
        ),
        equation="κ = (rᵢ − Bₜ) / S, Bₜ = Σ_{j≠i} rⱼW_jt/Σ_{j≠i} W_jt, W_t = Σ_{s≤t} (1 − 2π(yₛ) + Σπ²)",
    )


def _reward(own: Seen, max_tokens: int) -> float:
    return own.reward


def _so_far(rollout: Seen, position: int) -> float:
    """The squared score of its first tokens; 0 where it has none at that position."""
    tokens = zip(rollout.logp[: position + 1], rollout.collision, strict=False)
    return math.fsum(1 - 2 * math.exp(logp) + agree for logp, agree in tokens) if position < rollout.length else 0.0


def _less(own: Seen, others: Sequence[Seen], company: Sequence[Seen]) -> list[float]:
    credits = []
    for position in range(own.length):
        weights = [_so_far(rollout, position) for rollout in company]
        baseline = 0.0
        if any(other.length > position for other in others):
            earned = math.fsum(w * rollout.reward for w, rollout in zip(weights, company, strict=True))
            baseline = earned / math.fsum(weights)
        credits.append((own.reward - baseline) / (1 + len(others)))
    return credits


def _optimally_centred(own: Seen, others: Sequence[Seen], max_tokens: int) -> list[float]:
    return _less(own, others, [own, *others])


def _others_optimally_centred(own: Seen, others: Sequence[Seen], max_tokens: int) -> list[float]:
    return _less(own, others, others)
