"""Rows for answers that another policy gave, or an earlier one: what holds the policy by them is no clipped ratio."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from gnomon.objectives import penalties, ratios
from gnomon.objectives.group_rows import dr_grpo, reinforce_centred
from gnomon.objectives.row import Objective, OffPolicy, at_least

__all__ = ["dppo", "kimi_k15", "kimi_k15_token", "topr"]


def dppo(clip_low: float = 0.2, clip_high: float = 0.2, cap: float = 20.0) -> Objective:
    """DPPO: truncated token weights to the sampler, and no gradient once a probability has moved by the band's width.

    Args: clip_low, clip_high, the band of π − μ, in probability, ≥ 0; cap, of the weight, ≥ 1.
    Raises: ValueError for an option out of range.
    Differs: the source leaves credit and aggregate open; here they are Dr. GRPO's. prime-rl adds
        `squared_log_ratio` with a weight of 1e-3.
    """
    at_least(0, clip_low=clip_low, clip_high=clip_high)
    at_least(1, cap=cap)
    return replace(
        dr_grpo(),
        name="dppo",
        ratio=partial(ratios.probability_clip, low=clip_low, high=clip_high, cap=cap),
        mismatch=OffPolicy.TOKEN,
        equation="κ = min(ρ, cap)·1[not (A > 0 and π − μ > high) and not (A < 0 and π − μ < −low)]·A / (S·L_max), "
        "ρ = π/μ, A = rᵢ − r̄",
        source="DPPO 2026, arXiv 2602.04879",
    )


def kimi_k15(beta: float = 0.05) -> Objective:
    """Mirror descent of Kimi k1.5: the regularised reward by least squares, r ≈ V + β·log(π/μ) over whole answers.

    The policy is drawn to whatever sampled the answers, so every batch has a centre of its own and β bounds the step,
    not the way from a reference. Where V is exact it stands still at π ∝ μ·exp(r/β), on answers of any behavior.

    Args: beta, β of the squared log-ratio (τ in the source), ≥ 0; 0 is `reinforce_centred`.
    Raises: ValueError for an option out of range.
    Differs: V is the mean reward of the group, as there. DRO (arXiv 2405.19107) has the same square with a fixed
        reference for μ and a learned V(x), which no row here has. The source leaves β to the task.
    """
    at_least(0, beta=beta)
    return replace(
        reinforce_centred(),
        name="kimi_k15",
        penalty=penalties.squared_sequence_log_ratio,
        penalty_weight=beta / 2,
        off_policy=OffPolicy.PULLED,
        mismatch=OffPolicy.PULLED,
        equation="κ = (rᵢ − r̄ − β·Σₜ log(π/μ)) / S",
        source="Kimi 2025, arXiv 2501.12599, §2.3.2",
    )


def kimi_k15_token(beta: float = 0.05) -> Objective:
    """`kimi_k15` with the log-ratio of each token by itself in place of the whole answer's: the loss `dro` of Tinker.

    Args: beta, β of the squared log-ratio, ≥ 0; 0 is `reinforce_centred`.
    Raises: ValueError for an option out of range.
    """
    return replace(
        kimi_k15(beta),
        name="kimi_k15_token",
        penalty=penalties.squared_log_ratio,
        equation="κ = (rᵢ − r̄ − β·log(πₜ/μₜ)) / S",
        source="Tinker, loss dro; verl, dro",
    )


def topr() -> Objective:
    """TOPR: what is to be raised counts in full, what is to be lowered by the ratio of the whole answer, at most one.

    Differs: the reward is taken less the mean of its group, which decides what is to be raised.
    """
    return replace(
        reinforce_centred(),
        name="topr",
        ratio=ratios.tapered,
        off_policy=OffPolicy.TAPERED,
        equation="κ = A / S where A > 0, min(Πₜρₜ, 1)·A / S elsewhere, A = rᵢ − r̄",
        source="Le Roux et al. 2025, arXiv 2503.14286",
    )
