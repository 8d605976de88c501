"""Rows for answers that another policy gave, or an earlier one: what holds the policy by them is no clipped ratio."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from gnomon.objectives import penalties, ratios
from gnomon.objectives.group_rows import dr_grpo, reinforce_centred
from gnomon.objectives.row import Objective, OffPolicy, row

__all__ = ["dppo", "kimi_k15", "kimi_k15_token", "topr"]


@row
def dppo(*, clip_low: float, clip_high: float, cap: float) -> Objective:
    """Differs: the source leaves credit and aggregate open; here they are Dr. GRPO's. prime-rl adds
    `squared_log_ratio` with a weight of 1e-3.
    """
    return replace(
        dr_grpo(),
        ratio=partial(ratios.probability_clip, low=clip_low, high=clip_high, cap=cap),
        mismatch=OffPolicy.TOKEN,
        equation="κ = min(ρ, cap)·1[not (A > 0 and π − μ > high) and not (A < 0 and π − μ < −low)]·A / (S·L_max), "
        "ρ = π/μ, A = rᵢ − r̄",
    )


@row
def kimi_k15(*, beta: float) -> Objective:
    """The policy is drawn to whatever sampled the answers, so every batch has a centre of its own and β bounds the
    step, not the way from a reference. Where V is exact it stands still at π ∝ μ·exp(r/β), on answers of any behavior.
    Kimi K2's squared loss has the same gradient times 2β.

    Differs: V is the mean reward of the group, as there. DRO (arXiv 2405.19107) has the same square with a fixed
        reference for μ and a learned V(x), which no row here has. The source leaves β to the task.
    """
    return replace(
        reinforce_centred(),
        penalty=penalties.squared_sequence_log_ratio,
        penalty_weight=beta / 2,
        off_policy=OffPolicy.REGULARISED,
        mismatch=OffPolicy.REGULARISED,
        equation="κ = (rᵢ − r̄ − β·Σₜ log(π/μ)) / S",
    )


@row
def kimi_k15_token(*, beta: float) -> Objective:
    return replace(
        kimi_k15(beta),
        penalty=penalties.squared_log_ratio,
        equation="κ = (rᵢ − r̄ − β·log(πₜ/μₜ)) / S",
    )


@row
def topr() -> Objective:
    """Differs: the reward is taken less the mean of its group, which decides what is to be raised."""
    return replace(
        reinforce_centred(),
        ratio=ratios.tapered,
        off_policy=OffPolicy.TAPERED,
        mismatch=OffPolicy.TAPERED,
        equation="κ = A / S where A > 0, min(Πₜ π/μ, 1)·A / S elsewhere, A = rᵢ − r̄",
    )
