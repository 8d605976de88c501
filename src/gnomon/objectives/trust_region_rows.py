"""Rows that differ in the trust region that holds the policy, where it is not PPO's clip.

Where a source leaves the credit open the row has that of Dr. GRPO.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from gnomon.objectives import advantages, aggregate, closed, counts, penalties, ratios, rollout_credit, trust_regions
from gnomon.objectives.group_rows import dr_grpo, grpo, reinforce_centred, sample_score, standard_score
from gnomon.objectives.outcome_rows import w_reinforce
from gnomon.objectives.ratio_rows import dapo, gspo, tis
from gnomon.objectives.row import Noise, Objective, OffPolicy, Singleton, row
from gnomon.objectives.target import FrozenShape, Seen, SharedLength, TokenShape

__all__ = [
    "aspo",
    "bapo",
    "clip_cov",
    "cpgd",
    "dcpo",
    "fipo",
    "gepo",
    "gppo",
    "luspo",
    "m2po",
    "mini_rl",
    "opsm",
    "prime_ipo",
    "real",
    "tba",
    "vespo",
]

CENTRED_OVER_TOKENS = (
    "Σ π h ∇log π, h = E[F/T] of right answers, −E[K/T] of wrong ones; K right and F wrong of T tokens"
)


@row
def luspo(*, clip_low: float, clip_high: float, epsilon: float) -> Objective:
    """GSPO times the length of the rollout: the sum over its tokens, where GSPO takes their mean."""
    return replace(
        gspo(clip_low, clip_high, epsilon),
        aggregate=aggregate.sequence_sum,
        target=FrozenShape(
            advantage=partial(standard_score, epsilon=epsilon),
            share=closed.whole,
            text="Σ π h ∇log π, h = E[(r − r̄)/(σ + ε)]",
            closed=closed.standardised_form(
                partial(closed.population, epsilon=epsilon),
                closed.whole,
                "w(p) ∇p, w = E[√(F/(1+M)) + √(M/(1+F))], M ~ Bin(N−1, p), F = N−1−M",
            ),
        ),
        equation="κ = clip(s; A)·A / S, s = (Πₜρₜ)^(1/|oᵢ|), A = (rᵢ − r̄)/(σ + ε)",
    )


@row
def vespo(*, gain_power: float, gain_decay: float, loss_power: float, loss_decay: float) -> Objective:
    """Differs: the credit is left open by the loss; here it is r − r̄."""
    return replace(
        _centred_over_tokens(),
        ratio=partial(
            trust_regions.kernel_of_sequence,
            gain_power=gain_power,
            gain_decay=gain_decay,
            loss_power=loss_power,
            loss_decay=loss_decay,
        ),
        off_policy=OffPolicy.WEIGHTED,
        mismatch=OffPolicy.WEIGHTED,
        equation="κ = Wᵏ·e^{λ(1−W)}·A / Σⱼ|oⱼ|, W = Πₜ π/μ, (k, λ) by the sign of A, A = rᵢ − r̄",
    )


@row
def gppo(*, clip_low: float, clip_high: float, ceiling: float, epsilon: float) -> Objective:
    """Inside the band it is `dapo`."""
    return replace(
        dapo(epsilon=epsilon),
        ratio=partial(trust_regions.held_clip, low=clip_low, high=clip_high, ceiling=ceiling),
        equation="κ = f·A / Σⱼ|oⱼ|, f = min(ρ, 1 + ε_high) where A > 0, max(ρ, 1 − ε_low)·1[ρ ≤ c] elsewhere, "
        "A = (rᵢ − r̄)/(σ + ε)",
    )


@row
def dcpo(*, clip_low: float, clip_high: float, ceiling: float, epsilon: float) -> Objective:
    """At the first visit of a task, whose target is declared, it is `dapo` with the sample deviation inside the band.
    From the second on the mean and the deviation over all visits are blended in, so groups with a single reward can
    move the policy.
    """
    return replace(
        dapo(epsilon=epsilon),
        credit=partial(rollout_credit.blended_over_visits, epsilon=epsilon),
        advantage=partial(advantages.sample_standardised, epsilon=epsilon),
        ratio=partial(trust_regions.clip_by_likelihood, low=clip_low, high=clip_high, ceiling=ceiling),
        target=SharedLength(
            advantage=partial(sample_score, epsilon=epsilon),
            text="Σ π h ∇log π, h = N·E[(r − r̄)/(s + ε) / Σⱼ|yⱼ|]",
            closed=closed.per_token(
                partial(closed.sample, epsilon=epsilon),
                "Σ π h ∇log π, h = √((N−1)/N)·N·E[√(F/K)/T] of right answers, −√((N−1)/N)·N·E[√(K/F)/T] of wrong ones; "
                "K right and F wrong of T tokens",
            ),
        ),
        equation="κ = clip(ρ; A, q)·A / Σⱼ|oⱼ|, the band (ρ − 1)·ρ·q between −ε_low and ε_high; A the smaller in "
        "size of (z + (n−1)·A_g)/n and (A_g + (n−1)·z)/n at the n-th visit of a task, A_g = (rᵢ − r̄)/(s + ε) in the "
        "group, z = (rᵢ − m)/(√v + ε) over all visits",
    )


@row
def aspo(*, clip_low: float, clip_high: float, cap: float) -> Objective:
    """Differs: the released code standardises rewards, takes the mean over tokens and adds a KL penalty; here credit
    and aggregate are Dr. GRPO's. It widens the band to 0.4 for tokens of high entropy; here all have one band.
    """
    return replace(
        dr_grpo(),
        ratio=partial(trust_regions.inverted_for_gains, low=clip_low, high=clip_high, cap=cap),
        off_policy=OffPolicy.WEIGHTED,
        equation="κ = f·A / (S·L_max), f = min(1/ρ, cap)·1[ρ ≤ 1 + ε_high] where A > 0, "
        "min(ρ, cap)·1[ρ ≥ 1 − ε_low] elsewhere, A = rᵢ − r̄",
    )


@row
def bapo(
    *, floor: float, floor_end: float, top: float, top_end: float, stride: float, ceiling: float, epsilon: float
) -> Objective:
    """Inside every band it is `dapo`. Coefficients need all tokens of an optimiser step.

    Differs: as the released code computes it, a higher floor makes what is lowered weigh more, so a search for balance
        passes through all floors before a higher top can help.
    """
    return replace(
        dapo(epsilon=epsilon),
        ratio=partial(
            trust_regions.balanced_clip,
            floor=floor,
            floor_end=floor_end,
            top=top,
            top_end=top_end,
            stride=stride,
            ceiling=ceiling,
        ),
        equation="κ = clip(ρ; A)·A / Σⱼ|oⱼ| in the first band with Σ_{A>0} min(ρ, c_high)·A ≥ "
        "Σ_{A<0} max(ρ, c_low)·|A|, A = (rᵢ − r̄)/(σ + ε)",
    )


@row
def clip_cov(
    *, share: float, least: float, most: float, clip_low: float, clip_high: float, epsilon: float
) -> Objective:
    """The target is that of a step of one group. Coefficients need all tokens of an optimiser step.

    Differs: the source draws the tokens that lose their gradient; here each of the band keeps what it keeps on average,
        which has the same expectation and needs no draw.
    """
    return replace(
        dapo(clip_low, clip_high, epsilon),
        ratio=partial(trust_regions.covariance_clip, low=clip_low, high=clip_high, share=share, least=least, most=most),
        target=TokenShape(
            credit=partial(_by_covariance, share=share, least=least, most=most, epsilon=epsilon),
            text="Σ π hₜ ∇log π, hₜ = N·E[(r − r̄)/(σ + ε)·(1 − min(1, n/|B|)·1[t ∈ B]) / Σⱼ|yⱼ|]",
            closed=closed.pairs_by_covariance(
                share,
                least,
                most,
                epsilon,
                "Σ π hₜ ∇log π, hₜ = N·E[A·(1 − min(1, n/|B|)·1[t ∈ B])/T], A = (r − r̄)/(σ + ε), "
                "B the tokens with least < (A − Ā)(log π − mean log π) < most, T tokens",
            ),
        ),
        noise=Noise.MOVES,
        equation="κ = clip(ρ; A)·(1 − min(1, n/|B|)·1[t ∈ B])·A / Σⱼ|oⱼ|, B by (A − Ā)(log π − mean log π), "
        "A = (rᵢ − r̄)/(σ + ε)",
    )


@row
def m2po(*, limit: float, epsilon: float) -> Objective:
    """Nothing is clipped while the policy stays near the sampler on average, however far single tokens move.
    Coefficients need all tokens of an optimiser step.

    Differs: the authors' code counts only tokens that moved the way their advantage points, and clips them at the
        smallest bound that keeps the limit.
    """
    return replace(
        dapo(epsilon=epsilon),
        ratio=partial(trust_regions.second_moment_mask, limit=limit),
        mismatch=OffPolicy.TOKEN,
        equation="κ = π/μ·1[l² < b]·A / Σⱼ|oⱼ|, l = log(π/μ), b the least l² at which the mean of all l² ≤ b exceeds "
        "τ, A = (rᵢ − r̄)/(σ + ε)",
    )


@row
def fipo(*, half_life: float, most: float, clip_low: float, clip_high: float, epsilon: float) -> Objective:
    """On policy it is `dapo`. From the second update of a batch on, tokens before a part that the policy now gives more
    readily count more.

    Differs: without the released code's limits on tokens of a large ratio: they stay out of the sum there, and their
        weights are capped.
    """
    return replace(
        dapo(clip_low, clip_high, epsilon),
        ratio=partial(trust_regions.future_weighted_clip, low=clip_low, high=clip_high, half_life=half_life, most=most),
        off_policy=OffPolicy.WEIGHTED,
        equation="κ = fₜ·clip(ρ; A)·A / Σⱼ|oⱼ|, f = min(max(1, exp Σ_{s≥t} γ^{s−t} log ρₛ), c), γ = 2^{−1/half_life}, "
        "A = (rᵢ − r̄)/(σ + ε)",
    )


@row
def cpgd(*, alpha: float, cap: float, clip_low: float, clip_high: float) -> Objective:
    """No factor ρ: a token counts fully until it is clipped, and the drift draws the policy back.

    Differs: the weight ω of a prompt is 1, one of the three that the paper offers; α and c are choices made here.
    """
    return replace(
        _centred_over_tokens(),
        ratio=partial(trust_regions.clip_mask, low=clip_low, high=clip_high),
        penalty=partial(penalties.capped_drift, cap=cap),
        penalty_weight=alpha,
        off_policy=OffPolicy.REGULARISED,
        equation="κ = (1[not clipped]·A − α·min(ρ − 1, c)) / Σⱼ|oⱼ|, A = rᵢ − r̄",
    )


@row
def mini_rl(*, cap: float, clip_low: float, clip_high: float) -> Objective:
    """It is `tis` without a division by length.

    Differs: whether the weight alone or its product with the ratio is truncated was not found; here the weight is.
    """
    return replace(
        tis(cap, clip_low, clip_high),
        aggregate=aggregate.sequence_sum,
        target=reinforce_centred().target,
        equation="κ = min(wₜ, cap)·clip(ρ; A)·A / S, w = π_prox/μ, A = rᵢ − r̄",
    )


@row
def opsm(*, limit: float, clip_low: float, clip_high: float) -> Objective:
    """Differs: the report adds a penalty to the reference, `ratio_weighted_k3`, and its own credit."""
    return replace(
        dr_grpo(),
        ratio=partial(trust_regions.without_drifted_failures, low=clip_low, high=clip_high, limit=limit),
        equation="κ = clip(ρ; A)·1[not (A < 0 and mean_t log(μ/π) > δ)]·A / (S·L_max), A = rᵢ − r̄",
    )


@row
def prime_ipo(*, width: float) -> Objective:
    """Not IPO for preferences, which is `online_dpo` with a squared loss.

    Differs: the source takes the mean over tokens and leaves credit open; here credit and aggregate are Dr. GRPO's.
    """
    return replace(
        dr_grpo(),
        ratio=partial(trust_regions.probability_mask, width=width),
        mismatch=OffPolicy.TOKEN,
        equation="κ = ρ·1[|π − μ| ≤ width]·A / (S·L_max), ρ = π/μ, A = rᵢ − r̄",
    )


@row
def gepo(*, clip_low: float, clip_high: float, epsilon: float) -> Objective:
    """On policy likely answers weigh more than unlikely ones, and some are clipped at once: it is not GRPO.

    Differs: the widths of the clip are choices made here.
    """
    return replace(
        grpo(epsilon=epsilon),
        ratio=partial(trust_regions.group_expectation_clip, low=clip_low, high=clip_high),
        target=TokenShape(
            credit=partial(_by_group_expectation, low=clip_low, high=clip_high, epsilon=epsilon),
            text="Σ π h ∇log π, h = E[clip(c; A)·(r − r̄)/(σ + ε)] / |y|, c = Q/(Σⱼ Qⱼ²/Σⱼ Qⱼ)",
            closed=closed.pairs_by_likelihood(
                clip_low,
                clip_high,
                epsilon,
                "Σ π h ∇log π, h = E[clip(c; A)·(r − r̄)/(σ + ε)] / |y|, c = Q/(Σⱼ Qⱼ²/Σⱼ Qⱼ), Q the geometric mean of "
                "an answer's token probabilities",
            ),
        ),
        off_policy=OffPolicy.GEOMETRIC,
        mismatch=OffPolicy.GEOMETRIC,
        noise=Noise.MOVES,
        equation="κ = clip(c; A)·A / (S·|oᵢ|), c = Pᵢ/(Σⱼ Qⱼ²/Σⱼ Qⱼ), A = (rᵢ − r̄)/(σ + ε)",
    )


@row
def real(*, temperature: float) -> Objective:
    """Rewards are labels: right rollouts of a group are raised and wrong ones lowered, each by its share of its side.

    Differs: the default of τ is a choice made here.
    """
    return replace(
        w_reinforce(success=1.0, failure=0.0),
        advantage=partial(advantages.count_advantage, weight=partial(counts.label_weight, temperature=temperature)),
        ratio=partial(trust_regions.share_of_labels, temperature=temperature),
        aggregate=aggregate.sequence_mean,
        target=FrozenShape(
            advantage=partial(_label, temperature=temperature),
            share=closed.over_length,
            text="Σ π h ∇log π, h = ±N/τ·E[1/(1 + rollouts on its side)] / |y|",
            closed=closed.of_counts(
                partial(_right_label, temperature=temperature),
                partial(_wrong_label, temperature=temperature),
                "Σ π h ∇log π, h = N/τ·E[1/(2+M)]/|y| of right answers, −N/τ·E[1/(1+N−M)]/|y| of wrong ones, "
                "M ~ Bin(N−1, p)",
                closed.over_length,
            ),
        ),
        off_policy=OffPolicy.WEIGHTED,
        singleton=Singleton.AFFINE,
        noise=Noise.MOVES,
        equation="κ = ±e^{∓sᵢ/τ}/(1 + Σ_{same side} e^{∓sⱼ/τ}) / (G·τ·|oᵢ|), s = mean_t log ρₜ",
    )


@row
def tba(*, beta: float) -> Objective:
    """With a reference apart the expectation is (N−1)/N·∇(p − β·KL(π‖π_ref)). On answers of any behavior every
    coefficient is zero at π ∝ π_ref·exp(r/β), so groups of a single reward move the policy too.

    Differs: the paper's factor 2/β is left to the learning rate, and the mean of the log-ratio runs over the rollouts
        that have tokens.
    """
    return replace(
        reinforce_centred(),
        penalty=penalties.centred_k1,
        penalty_weight=beta,
        equation="κ = (Rᵢ − R̄) / S, R = r − β·Σₜ log(π/π_ref)",
    )


def _centred_over_tokens() -> Objective:
    return replace(
        dr_grpo(),
        ratio=ratios.unclipped,
        aggregate=aggregate.token_mean,
        target=SharedLength(
            advantage=_less_mean,
            text="Σ π h ∇log π, h = N·E[(r − r̄)/Σⱼ|yⱼ|]",
            closed=closed.tallied_form(_centred_share, CENTRED_OVER_TOKENS),
        ),
    )


def _less_mean(reward: float, others: Sequence[float]) -> float:
    return reward - math.fsum([reward, *others]) / (1 + len(others))


def _centred_share(own: Seen, total: tuple[int, ...]) -> float:
    right, wrong, tokens = total[0], total[1], total[2] + total[3]
    return (wrong if own.reward else -right) / ((right + wrong) * tokens)


def _by_group_expectation(
    own: Seen, others: Sequence[Seen], max_tokens: int, *, low: float, high: float, epsilon: float
) -> list[float]:
    likely = [math.exp(math.fsum(rollout.logp) / rollout.length) for rollout in (own, *others)]
    weight = likely[0] * math.fsum(likely) / math.fsum(value**2 for value in likely)
    score = standard_score(own.reward, [rollout.reward for rollout in others], epsilon=epsilon)
    if (score > 0 and weight > 1 + high) or (score < 0 and weight < 1 - low):
        return [0.0] * own.length
    return [score * weight / (len(likely) * own.length)] * own.length


def _by_covariance(
    own: Seen, others: Sequence[Seen], max_tokens: int, *, share: float, least: float, most: float, epsilon: float
) -> list[float]:
    group = [own, *others]
    rewards = [rollout.reward for rollout in group]
    scores = [standard_score(rewards[i], rewards[:i] + rewards[i + 1 :], epsilon=epsilon) for i in range(len(group))]
    tokens = [(score, logp) for rollout, score in zip(group, scores, strict=True) for logp in rollout.logp]
    count = len(tokens)
    score_mean, logp_mean = (math.fsum(values) / count for values in zip(*tokens, strict=True))
    inside = [least < (score - score_mean) * (logp - logp_mean) < most for score, logp in tokens]
    lost = min(1.0, max(1, int(share * count)) / max(sum(inside), 1))
    return [scores[0] * (1 - lost * inside[t]) / count for t in range(own.length)]


def _label(reward: float, others: Sequence[float], *, temperature: float) -> float:
    rewards = [reward, *others]
    sign = 1.0 if reward else -1.0
    return sign * len(rewards) / temperature / (1 + rewards.count(reward))


def _right_label(right: int, group: int, *, temperature: float) -> float:
    return group / temperature / (1 + right)


def _wrong_label(right: int, group: int, *, temperature: float) -> float:
    return -group / temperature / (1 + group - right)
