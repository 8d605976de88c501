"""Rows that differ in what they make of a policy that has moved, or of a sampler that was never quite the policy.

Where a source leaves the credit open, as all corrections do, the row stands on Dr. GRPO.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from gnomon.objectives import advantages, aggregate, closed, penalties, ratios, rollout_credit, trust_regions
from gnomon.objectives.group_rows import dr_grpo, grpo, reinforce_centred, rloo, standard_score
from gnomon.objectives.row import Objective, OffPolicy, Scope, row
from gnomon.objectives.target import SharedLength

__all__ = [
    "cispo",
    "dapo",
    "dppo",
    "dual_clip_ppo",
    "geometric_rejection",
    "gmpo",
    "gspo",
    "icepop",
    "kimi_k15",
    "loop",
    "sapo",
    "scale_rl",
    "sequence_is",
    "sequence_mis",
    "sequence_tis",
    "tis",
    "topr",
]

OVER_TOKENS = (
    "Σ π h ∇log π, h = N·E[√(F/K)/T] of right answers, −N·E[√(K/F)/T] of wrong ones; K right and F wrong of T tokens"
)


@row
def loop(*, clip_low: float, clip_high: float) -> Objective:
    return replace(
        rloo(),
        ratio=partial(ratios.ppo_clip, low=clip_low, high=clip_high),
        off_policy=OffPolicy.TOKEN,
        equation="κ = clip(ρ; A)·A / S, A = rᵢ − mean_{j≠i} rⱼ",
    )


@row
def dual_clip_ppo(*, clip_low: float, clip_high: float, ceiling: float) -> Objective:
    return replace(
        dr_grpo(),
        ratio=partial(ratios.dual_clip, low=clip_low, high=clip_high, ceiling=ceiling),
        equation="κ = clip(ρ; A)·1[not (A < 0 and ρ > c)]·A / (S·L_max), A = rᵢ − r̄",
    )


@row
def sequence_is(*, timestep: int) -> Objective:
    kind = OffPolicy.TIMESTEP if timestep else OffPolicy.SEQUENCE
    return replace(
        rloo(),
        ratio=partial(ratios.sequence_ratio, timestep=timestep),
        off_policy=kind,
        mismatch=kind,
        equation=f"κ = Π_{{t∈{'b' if timestep else 'o'}}} π/μ·A / S, A = rᵢ − mean_{{j≠i}} rⱼ"
        + (f", b the {timestep} tokens of a timestep" if timestep else ""),
    )


@row
def gspo(*, clip_low: float, clip_high: float, epsilon: float) -> Objective:
    return replace(
        grpo(epsilon=epsilon),
        ratio=partial(ratios.geometric_clip, low=clip_low, high=clip_high),
        off_policy=OffPolicy.GEOMETRIC,
        equation="κ = clip(s; A)·A / (S·|oᵢ|), s = (Πₜρₜ)^(1/|oᵢ|), A = (rᵢ − r̄)/(σ + ε)",
    )


@row
def gmpo(*, clip_low: float, clip_high: float, epsilon: float) -> Objective:
    return replace(
        grpo(epsilon=epsilon),
        ratio=partial(ratios.geometric_of_clipped, low=clip_low, high=clip_high),
        off_policy=OffPolicy.GEOMETRIC,
        equation="κ = exp(mean_t clip(log ρₜ; A))·1[t not clipped]·A / (S·|oᵢ|), A = (rᵢ − r̄)/(σ + ε)",
    )


@row
def sapo(*, gain: float, loss: float, epsilon: float) -> Objective:
    return replace(
        grpo(epsilon=epsilon),
        ratio=partial(ratios.soft_gate, gain=gain, loss=loss),
        off_policy=OffPolicy.SOFT,
        equation="κ = 4σ(1−σ)·ρ·A / (S·|oᵢ|), σ = sigmoid(τ_A·(ρ − 1)), A = (rᵢ − r̄)/(σ_r + ε)",
    )


@row
def dapo(*, clip_low: float, clip_high: float, epsilon: float) -> Objective:
    """Differs: refilling groups that are all right or all wrong is the sampler's work (it rescales, and redirects
    nothing), length shaping the reward's (`less_overlong`); the recipe of this row turns both on. There rewards
    are ±1, of which the shaping takes half, here 0 and 1. The released code divides by the sample deviation.
    """
    return replace(
        grpo(clip_low, clip_high, epsilon),
        aggregate=aggregate.token_mean,
        target=SharedLength(
            advantage=partial(standard_score, epsilon=epsilon),
            text="Σ π h ∇log π, h = N·E[(r − r̄)/(σ + ε) / Σⱼ|yⱼ|]",
            closed=closed.per_token(
                partial(closed.population, epsilon=epsilon),
                OVER_TOKENS,
            ),
        ),
        equation="κ = clip(ρ; A)·A / Σⱼ|oⱼ|, A = (rᵢ − r̄)/(σ + ε)",
    )


@row
def cispo(*, clip_high: float, epsilon: float) -> Objective:
    """Differs: the paper gives no number for the ceiling; 0.2 is the usual width of a clip. TRL, ms-swift and ScaleRL
    write the ceiling itself, 1 + clip_high: their 5 is clip_high = 4. `scale_rl` has the aggregate, the deviation and
    the centre of ScaleRL too.
    """
    return replace(
        dapo(epsilon=epsilon),
        ratio=partial(ratios.capped, cap=1 + clip_high),
        equation="κ = min(ρ, 1 + ε_high)·A / Σⱼ|oⱼ|, A = (rᵢ − r̄)/(σ + ε)",
    )


@row
def scale_rl(*, cap: float, epsilon: float) -> Objective:
    """Groups that are all right or all wrong count neither in the deviation nor among the prompts of the mean.

    Differs: the recipe also drops prompts for good once nine in ten of their rollouts were right, computes the logits
        in float32 and interrupts long reasoning. Whether its deviation is that of the kept groups or of all is not
        printed; here it is that of the kept.
    """
    return replace(
        cispo(epsilon=epsilon),
        advantage=advantages.mean_centred,
        credit=partial(rollout_credit.scaled_by_step, epsilon=epsilon),
        ratio=partial(ratios.capped_to_sampler, cap=cap),
        aggregate=aggregate.prompt_mean,
        mismatch=OffPolicy.TOKEN,
        scope=Scope.STEP,
        equation="κ = min(π/μ, cap)·A / (G′·Σ_{j∈g}|oⱼ|), A = (rᵢ − r̄)/(σ_step + ε), "
        "G′ groups with more than one reward",
    )


@row
def tis(*, cap: float, clip_low: float, clip_high: float) -> Objective:
    return replace(
        dr_grpo(clip_low, clip_high),
        correction=partial(ratios.truncated, cap=cap),
        mismatch=OffPolicy.TOKEN,
        equation="κ = min(wₜ, cap)·clip(ρ; A)·A / (S·L_max), w = π_prox/μ, A = rᵢ − r̄",
    )


@row
def icepop(*, least: float, most: float, clip_low: float, clip_high: float) -> Objective:
    return replace(
        tis(clip_low=clip_low, clip_high=clip_high),
        correction=partial(ratios.banded, least=least, most=most),
        equation="κ = wₜ·1[least ≤ wₜ ≤ most]·clip(ρ; A)·A / (S·L_max), w = π_prox/μ, A = rᵢ − r̄",
    )


@row
def sequence_tis(*, cap: float, clip_low: float, clip_high: float) -> Objective:
    return replace(
        tis(cap, clip_low, clip_high),
        correction=partial(ratios.sequence_truncated, cap=cap),
        mismatch=OffPolicy.SEQUENCE,
        equation="κ = min(Πₜwₜ, cap)·clip(ρ; A)·A / (S·L_max), w = π_prox/μ, A = rᵢ − r̄",
    )


@row
def sequence_mis(*, cap: float, clip_low: float, clip_high: float) -> Objective:
    return replace(
        sequence_tis(cap, clip_low, clip_high),
        correction=partial(ratios.sequence_masked, cap=cap),
        equation="κ = Πₜwₜ·1[Πₜwₜ ≤ cap]·clip(ρ; A)·A / (S·L_max), w = π_prox/μ, A = rᵢ − r̄",
    )


@row
def geometric_rejection(*, least: float, most: float, clip_low: float, clip_high: float) -> Objective:
    return replace(
        dr_grpo(clip_low, clip_high),
        correction=partial(ratios.geometric_mask, least=least, most=most),
        equation="κ = 1[least ≤ (Πₜwₜ)^(1/|oᵢ|) ≤ most]·clip(ρ; A)·A / (S·L_max), w = π_prox/μ, A = rᵢ − r̄",
    )


@row
def dppo(*, clip_low: float, clip_high: float, cap: float, by: str) -> Objective:
    """Differs: the source leaves credit and aggregate open; here they are Dr. GRPO's. prime-rl adds
    `squared_log_ratio` with a weight of 1e-3. With `divergence` the widths are in nats, and prime-rl's code has no
    ceiling, though its text has one.
    """
    clip, more = ratios.probability_clip, ""
    outside = "A > 0 and π − μ > high) and not (A < 0 and π − μ < −low"
    if by == "divergence":
        clip, more = trust_regions.divergence_clip, ", d = μ·log(μ/π) + (1−μ)·log((1−μ)/(1−π))"
        outside = "A > 0 and π > μ and d > high) and not (A < 0 and π < μ and d > low"
    return replace(
        dr_grpo(),
        ratio=partial(clip, low=clip_low, high=clip_high, cap=cap),
        mismatch=OffPolicy.TOKEN,
        equation=f"κ = min(ρ, cap)·1[not ({outside})]·A / (S·L_max), ρ = π/μ{more}, A = rᵢ − r̄",
    )


@row
def kimi_k15(*, beta: float, ratio: str) -> Objective:
    """The policy is drawn to whatever sampled the answers, so every batch has a centre of its own and β bounds the
    step, not the way from a reference. Where V is exact it stands still at π ∝ μ·exp(r/β), on answers of any behavior.
    Kimi K2's squared loss has the same gradient times 2β.

    Differs: V is the mean reward of the group, as there. DRO (arXiv 2405.19107) has the same square with a fixed
        reference for μ and a learned V(x), which no row here has. The source leaves β to the task.
    """
    whole = ratio == "answer"
    return replace(
        reinforce_centred(),
        penalty=penalties.squared_sequence_log_ratio if whole else penalties.squared_log_ratio,
        penalty_weight=beta / 2,
        off_policy=OffPolicy.REGULARISED,
        mismatch=OffPolicy.REGULARISED,
        equation=f"κ = (rᵢ − r̄ − β·{'Σₜ log(π/μ)' if whole else 'log(πₜ/μₜ)'}) / S",
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
