"""Rows that differ in what they make of a policy that has moved, or of a sampler that was never quite the policy.

Where a source leaves the credit open, as all corrections do, the row stands on Dr. GRPO.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from gnomon.objectives import advantages, aggregate, closed, group_credit, ratios
from gnomon.objectives.group_rows import dr_grpo, grpo, rloo, standard_score
from gnomon.objectives.row import Objective, OffPolicy, Scope, above, at_least, within
from gnomon.objectives.target import SharedLength

__all__ = [
    "cispo",
    "cispo_cap",
    "dapo",
    "decoupled_ppo",
    "dual_clip_ppo",
    "geometric_rejection",
    "gmpo",
    "gspo",
    "gspo_token",
    "icepop",
    "loop",
    "sapo",
    "scale_rl",
    "sequence_is",
    "sequence_mis",
    "sequence_tis",
    "tis",
]

OVER_TOKENS = (
    "Σ π h ∇log π, h = N·E[√(F/K)/T] of right answers, −N·E[√(K/F)/T] of wrong ones; K right and F wrong of T tokens"
)


def loop(clip_low: float = 0.2, clip_high: float = 0.2) -> Objective:
    """LOOP: leave-one-out credit under clipped token ratios.

    Args: clip_low, clip_high, the band of the ratio, ≥ 0.
    Raises: ValueError for an option out of range.
    """
    at_least(0, clip_low=clip_low, clip_high=clip_high)
    return replace(
        rloo(),
        name="loop",
        ratio=partial(ratios.ppo_clip, low=clip_low, high=clip_high),
        off_policy=OffPolicy.TOKEN,
        equation="κ = clip(ρ; A)·A / S, A = rᵢ − mean_{j≠i} rⱼ",
        source="Chen et al. 2025, arXiv 2502.01600",
    )


def dual_clip_ppo(clip_low: float = 0.2, clip_high: float = 0.2, ceiling: float = 3.0) -> Objective:
    """PPO's clip with a second one: an unwanted token that has become far more likely is let go.

    Args: clip_low, clip_high, the band of the ratio, ≥ 0; ceiling, of the ratio where A < 0, > 1.
    Raises: ValueError for an option out of range.
    """
    at_least(0, clip_low=clip_low, clip_high=clip_high)
    above(1, ceiling=ceiling)
    return replace(
        dr_grpo(),
        name="dual_clip_ppo",
        ratio=partial(ratios.dual_clip, low=clip_low, high=clip_high, ceiling=ceiling),
        equation="κ = clip(ρ; A)·1[not (A < 0 and ρ > c)]·A / (S·L_max), A = rᵢ − r̄",
        source="Ye et al. 2020, arXiv 1912.09729",
    )


def sequence_is() -> Objective:
    """RLOO under the importance ratio of the whole answer: the policy gradient, whatever policy sampled."""
    return replace(
        rloo(),
        name="sequence_is",
        ratio=ratios.sequence_ratio,
        off_policy=OffPolicy.SEQUENCE,
        equation="κ = Πₜρₜ·A / S, A = rᵢ − mean_{j≠i} rⱼ",
        source="Precup et al. 2000, ICML",
    )


def gspo(clip_low: float = 3e-4, clip_high: float = 4e-4, epsilon: float = 1e-6) -> Objective:
    """GSPO: standardised rewards under the clipped geometric mean of a rollout's ratios. On policy it is GRPO.

    Args: clip_low, clip_high, the band of the mean ratio, ≥ 0; epsilon, added to the standard deviation, ≥ 0.
    Raises: ValueError for an option out of range.
    """
    at_least(0, clip_low=clip_low, clip_high=clip_high, epsilon=epsilon)
    return replace(
        grpo(epsilon=epsilon),
        name="gspo",
        ratio=partial(ratios.geometric_clip, low=clip_low, high=clip_high),
        off_policy=OffPolicy.GEOMETRIC,
        equation="κ = clip(s; A)·A / (S·|oᵢ|), s = (Πₜρₜ)^(1/|oᵢ|), A = (rᵢ − r̄)/(σ + ε)",
        source="Zheng et al. 2025, arXiv 2507.18071",
    )


def gspo_token(clip_low: float = 3e-4, clip_high: float = 4e-4, epsilon: float = 1e-6) -> Objective:
    """GSPO-token: the ratio s·π/sg(π) of each token. With one advantage to a rollout it has GSPO's coefficients.

    Args: clip_low, clip_high, the band of the mean ratio, ≥ 0; epsilon, added to the standard deviation, ≥ 0.
    Raises: ValueError for an option out of range.
    """
    return replace(
        gspo(clip_low, clip_high, epsilon),
        name="gspo_token",
        equation="κ = clip(sₜ; A)·A / (S·|oᵢ|), sₜ = sg(s)·π/sg(π), A = (rᵢ − r̄)/(σ + ε)",
        source="Zheng et al. 2025, arXiv 2507.18071",
    )


def gmpo(clip_low: float = 0.4, clip_high: float = 0.4, epsilon: float = 1e-6) -> Objective:
    """GMPO: standardised rewards under the geometric mean of clipped token ratios. On policy it is GRPO.

    Args: clip_low, clip_high, the band of the *log*-ratio below and above 0, ≥ 0; epsilon, added to the standard
        deviation, ≥ 0.
    Raises: ValueError for an option out of range.
    """
    at_least(0, clip_low=clip_low, clip_high=clip_high, epsilon=epsilon)
    return replace(
        grpo(epsilon=epsilon),
        name="gmpo",
        ratio=partial(ratios.geometric_of_clipped, low=clip_low, high=clip_high),
        off_policy=OffPolicy.GEOMETRIC,
        equation="κ = exp(mean_t clip(log ρₜ; A))·1[t not clipped]·A / (S·|oᵢ|), A = (rᵢ − r̄)/(σ + ε)",
        source="Zhao et al. 2025, arXiv 2507.20673",
    )


def sapo(gain: float = 1.0, loss: float = 1.05, epsilon: float = 1e-6) -> Objective:
    """SAPO: standardised rewards under token ratios that fade out smoothly. On policy it is GRPO.

    Args: gain, loss, how fast, for tokens to be raised and to be lowered, > 0; epsilon, added to the standard
        deviation, ≥ 0.
    Raises: ValueError for an option out of range.
    """
    above(0, gain=gain, loss=loss)
    at_least(0, epsilon=epsilon)
    return replace(
        grpo(epsilon=epsilon),
        name="sapo",
        ratio=partial(ratios.soft_gate, gain=gain, loss=loss),
        off_policy=OffPolicy.SOFT,
        equation="κ = 4σ(1−σ)·ρ·A / (S·|oᵢ|), σ = sigmoid(τ_A·(ρ − 1)), A = (rᵢ − r̄)/(σ_r + ε)",
        source="Gao et al. 2025, arXiv 2511.20347",
    )


def dapo(clip_low: float = 0.2, clip_high: float = 0.28, epsilon: float = 1e-6) -> Objective:
    """DAPO: standardised rewards, a clip with more room above, the mean over all tokens of the step.

    Args: clip_low, clip_high, the band of the ratio, ≥ 0; epsilon, added to the standard deviation, ≥ 0.
    Raises: ValueError for an option out of range.
    Differs: refilling groups that are all right or all wrong is the sampler's work (it rescales, and redirects
        nothing), length shaping the reward's (`less_overlong`); the recipe of this row turns both on. There rewards
        are ±1, of which the shaping takes half, here 0 and 1. The released code divides by the sample deviation.
    """
    at_least(0, clip_low=clip_low, clip_high=clip_high, epsilon=epsilon)
    return replace(
        grpo(clip_low, clip_high, epsilon),
        name="dapo",
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
        source="Yu et al. 2025, arXiv 2503.14476",
    )


def cispo(clip_high: float = 0.2, epsilon: float = 1e-6) -> Objective:
    """CISPO: standardised rewards under token ratios with a ceiling of 1 + clip_high; no token loses its gradient.

    Args: clip_high, what the ceiling of the ratio is above 1, ≥ 0; epsilon, added to the standard deviation, ≥ 0.
    Raises: ValueError for an option out of range.
    Differs: the paper gives no number for the ceiling; 0.2 is the usual width of a clip. Others write the
        ceiling itself: see `cispo_cap`.
    """
    at_least(0, clip_high=clip_high)
    return replace(
        dapo(epsilon=epsilon),
        name="cispo",
        ratio=partial(ratios.capped, cap=1 + clip_high),
        equation="κ = min(ρ, 1 + ε_high)·A / Σⱼ|oⱼ|, A = (rᵢ − r̄)/(σ + ε)",
        source="MiniMax 2025, arXiv 2506.13585, §3.1",
    )


def cispo_cap(cap: float = 5.0, epsilon: float = 1e-6) -> Objective:
    """CISPO by its ceiling: the convention of TRL, ms-swift and ScaleRL, where 5 means a ratio of 5.

    Args: cap, ceiling of the ratio, ≥ 1; epsilon, added to the standard deviation, ≥ 0.
    Raises: ValueError for an option out of range.
    Differs: `scale_rl` has the aggregate, the deviation and the centre of ScaleRL too.
    """
    at_least(1, cap=cap)
    return replace(
        cispo(epsilon=epsilon),
        name="cispo_cap",
        ratio=partial(ratios.capped, cap=cap),
        equation="κ = min(ρ, cap)·A / Σⱼ|oⱼ|, A = (rᵢ − r̄)/(σ + ε)",
        source="MiniMax 2025, arXiv 2506.13585, §3.1; the ceiling as in TRL, loss_type = cispo",
    )


def scale_rl(cap: float = 5.0, epsilon: float = 1e-6) -> Objective:
    """ScaleRL: CISPO around the sampler, the deviation of the whole step, the mean over the tokens of each prompt.

    Groups that are all right or all wrong count neither in the deviation nor among the prompts of the mean.

    Args: cap, ceiling of the ratio, ≥ 1; epsilon, added to the standard deviation, ≥ 0.
    Raises: ValueError for an option out of range.
    Differs: the recipe also drops prompts for good once nine in ten of their rollouts were right, computes the logits
        in float32 and interrupts long reasoning. Whether its deviation is that of the kept groups or of all is not
        printed; here it is that of the kept.
    """
    at_least(1, cap=cap)
    return replace(
        cispo_cap(cap, epsilon),
        name="scale_rl",
        advantage=advantages.mean_centred,
        credit=partial(group_credit.scaled_by_step, epsilon=epsilon),
        ratio=partial(ratios.capped_to_sampler, cap=cap),
        aggregate=aggregate.prompt_mean,
        mismatch=OffPolicy.TOKEN,
        scope=Scope.STEP,
        equation="κ = min(π/μ, cap)·A / (G′·Σ_{j∈g}|oⱼ|), A = (rᵢ − r̄)/(σ_step + ε), "
        "G′ groups with more than one reward",
        source="Khatri et al. 2025 (ScaleRL), arXiv 2510.13786, §4",
    )


def tis(cap: float = 2.0, clip_low: float = 0.2, clip_high: float = 0.2) -> Objective:
    """TIS: token weights of the sampler's mismatch, truncated, on a clipped objective.

    Args: cap, of the weight, ≥ 1; clip_low, clip_high, the band of the ratio, ≥ 0.
    Raises: ValueError for an option out of range.
    """
    at_least(1, cap=cap)
    return replace(
        dr_grpo(clip_low, clip_high),
        name="tis",
        correction=partial(ratios.truncated, cap=cap),
        mismatch=OffPolicy.TOKEN,
        equation="κ = min(wₜ, cap)·clip(ρ; A)·A / (S·L_max), w = π_prox/μ, A = rᵢ − r̄",
        source="Yao et al. 2025, fengyao.notion.site/off-policy-rl",
    )


def icepop(least: float = 0.5, most: float = 5.0, clip_low: float = 0.2, clip_high: float = 0.2) -> Objective:
    """IcePop: token weights of the sampler's mismatch inside a band; tokens outside are dropped.

    Args: least, most, the band of the weight, 0 ≤ least ≤ 1 ≤ most; clip_low, clip_high, the band of the ratio, ≥ 0.
    Raises: ValueError for an option out of range.
    """
    within(0, 1, least=least)
    at_least(1, most=most)
    return replace(
        tis(clip_low=clip_low, clip_high=clip_high),
        name="icepop",
        correction=partial(ratios.banded, least=least, most=most),
        equation="κ = wₜ·1[least ≤ wₜ ≤ most]·clip(ρ; A)·A / (S·L_max), w = π_prox/μ, A = rᵢ − r̄",
        source="Ling team 2025, arXiv 2510.18855",
    )


def sequence_tis(cap: float = 2.0, clip_low: float = 0.2, clip_high: float = 0.2) -> Objective:
    """The weight of the whole answer for the sampler's mismatch, truncated. Exact where the cap does not bind.

    Args: cap, of the weight, ≥ 1; clip_low, clip_high, the band of the ratio, ≥ 0.
    Raises: ValueError for an option out of range.
    """
    return replace(
        tis(cap, clip_low, clip_high),
        name="sequence_tis",
        correction=partial(ratios.sequence_truncated, cap=cap),
        mismatch=OffPolicy.SEQUENCE,
        equation="κ = min(Πₜwₜ, cap)·clip(ρ; A)·A / (S·L_max), w = π_prox/μ, A = rᵢ − r̄",
        source='Liu et al. 2025, "When speed kills stability"',
    )


def sequence_mis(cap: float = 10.0, clip_low: float = 0.2, clip_high: float = 0.2) -> Objective:
    """The weight of the whole answer for the sampler's mismatch; answers above the cap are dropped.

    Args: cap, of the weight, ≥ 1; clip_low, clip_high, the band of the ratio, ≥ 0.
    Raises: ValueError for an option out of range.
    """
    return replace(
        sequence_tis(cap, clip_low, clip_high),
        name="sequence_mis",
        correction=partial(ratios.sequence_masked, cap=cap),
        equation="κ = Πₜwₜ·1[Πₜwₜ ≤ cap]·clip(ρ; A)·A / (S·L_max), w = π_prox/μ, A = rᵢ − r̄",
        source="Qi et al. 2025, arXiv 2510.26788",
    )


def geometric_rejection(
    least: float = 0.999, most: float = 1.001, clip_low: float = 0.2, clip_high: float = 0.2
) -> Objective:
    """Answers whose mean mismatch leaves a band are dropped; the others are taken as they are.

    Args: least, most, the band of the geometric mean, 0 ≤ least ≤ 1 ≤ most; clip_low, clip_high, the band of the
        ratio, ≥ 0.
    Raises: ValueError for an option out of range.
    """
    within(0, 1, least=least)
    at_least(1, most=most)
    return replace(
        dr_grpo(clip_low, clip_high),
        name="geometric_rejection",
        correction=partial(ratios.geometric_mask, least=least, most=most),
        equation="κ = 1[least ≤ (Πₜwₜ)^(1/|oᵢ|) ≤ most]·clip(ρ; A)·A / (S·L_max), w = π_prox/μ, A = rᵢ − r̄",
        source="verl, docs/algo/rollout_corr_math.md",
    )


def decoupled_ppo(cap: float = 5.0, clip_low: float = 0.2, clip_high: float = 0.2) -> Objective:
    """Decoupled PPO: a clip around a proximal policy of its own, token weights from there to the sampler.

    Args: cap, weights above it drop their token, ≥ 1; clip_low, clip_high, the band of the ratio, ≥ 0.
    Raises: ValueError for an option out of range.
    """
    return replace(
        tis(cap, clip_low, clip_high),
        name="decoupled_ppo",
        correction=partial(ratios.rejected, cap=cap),
        equation="κ = wₜ·1[wₜ ≤ cap]·clip(ρ; A)·A / (S·L_max), w = π_prox/μ, A = rᵢ − r̄",
        source="Hilton et al. 2021, arXiv 2110.00641; Fu et al. 2025 (AReaL), arXiv 2505.24298",
    )
