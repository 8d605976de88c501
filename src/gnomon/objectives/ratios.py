"""How far the policy has moved, as a multiplier of the advantage: tokens in, [T] multipliers out.

Ratio: policy over proximal, may look at the advantage. Correction: proximal over behavior, may not.
Every multiplier is finite: log-ratios beyond ±80 are held there (e⁸⁰ ≈ 5.5e34 still fits float32).
Masked tokens weigh zero and stay in the denominators, which are those of the step as planned.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gnomon.objectives.tokens import Reach, Tokens, reaches

__all__ = [
    "banded",
    "capped",
    "capped_to_sampler",
    "clipped_or_shaped",
    "dual_clip",
    "geometric_clip",
    "geometric_mask",
    "geometric_of_clipped",
    "no_correction",
    "no_ratio",
    "ppo_clip",
    "probability_clip",
    "sequence_masked",
    "sequence_ratio",
    "sequence_truncated",
    "soft_gate",
    "tapered",
    "truncated",
    "unclipped",
    "unclipped_or_shaped",
]

LIMIT = 80.0


@reaches(Reach.TOKEN)
def no_ratio(tokens: Tokens) -> Tensor:
    """Plain score function: one everywhere, however far the policy has moved."""
    return torch.ones_like(tokens.logp)


@reaches(Reach.TOKEN)
def unclipped(tokens: Tokens) -> Tensor:
    """The importance ratio of each token.

    Equation: ρ = π(yₜ|y_{<t}) / π_prox(yₜ|y_{<t}).
    Returns: multiplier per token, > 0.
    """
    return _exp(tokens.log_ratio)


@reaches(Reach.TOKEN)
def ppo_clip(tokens: Tokens, *, low: float, high: float) -> Tensor:
    """The importance ratio, and zero once a token has moved far enough the way its advantage points.

    Equation: ρ · 1[not (A > 0 and ρ > 1+high) and not (A < 0 and ρ < 1−low)],
        the gradient of min(ρA, clip(ρ, 1−low, 1+high)·A) divided by A.
    Args: low, high, width of the band below and above 1, ≥ 0.
    Returns: multiplier per token, ≥ 0; not bounded where the policy moved against the advantage.
    Source: Schulman et al. 2017, arXiv 1707.06347.
    Differs: on the edge itself, where the surrogate has two slopes, the token keeps its gradient.
    """
    return _one_sided(_exp(tokens.log_ratio), tokens.advantage, 1 - low, 1 + high)


@reaches(Reach.TOKEN)
def dual_clip(tokens: Tokens, *, low: float, high: float, ceiling: float) -> Tensor:
    """`ppo_clip`, and zero too where an unwanted token has become far more likely.

    Equation: ρ · 1[not clipped and not (A < 0 and ρ > c)], the gradient of max(min(ρA, clip(ρ)·A), c·A)
        divided by A where A < 0.
    Args: low, high, as in `ppo_clip`; ceiling, c > 1.
    Returns: multiplier per token, ≥ 0; at most max(1+high, c), except where A = 0.
    Source: Ye et al. 2020, arXiv 1912.09729.
    """
    ratio = _exp(tokens.log_ratio)
    lost = (tokens.advantage < 0) & (ratio > ceiling)
    return torch.where(lost, torch.zeros_like(ratio), _one_sided(ratio, tokens.advantage, 1 - low, 1 + high))


@reaches(Reach.TOKEN)
def capped(tokens: Tokens, *, cap: float) -> Tensor:
    """The importance ratio with a ceiling; every token keeps a gradient.

    Equation: min(ρ, cap), a detached weight of A·∇log π.
    Args: cap, > 0.
    Returns: multiplier per token, > 0 and at most cap.
    Source: MiniMax 2025 (CISPO), arXiv 2506.13585, §3.1.
    """
    return _exp(tokens.log_ratio).clamp(max=cap)


@reaches(Reach.TOKEN)
def soft_gate(tokens: Tokens, *, gain: float, loss: float) -> Tensor:
    """The importance ratio, faded out smoothly on both sides of one.

    Equation: 4σ(1−σ)·ρ, σ = sigmoid(τ·(ρ−1)); the gradient of (4/τ)·σ·A divided by A.
    Args: gain, τ where A > 0; loss, τ elsewhere; both > 0, larger fades faster.
    Returns: multiplier per token, ≥ 0, one at ρ = 1.
    Source: Gao et al. 2025 (SAPO), arXiv 2511.20347.
    """
    ratio = _exp(tokens.log_ratio)
    temperature = torch.where(tokens.advantage > 0, torch.full_like(ratio, gain), torch.full_like(ratio, loss))
    tail = (-(temperature * (ratio - 1)).abs()).exp()  # σ(1−σ) = e/(1+e)², and σ itself is not the same in every lane.
    return 4 * tail / (1 + tail).square() * ratio


@reaches(Reach.SEQUENCE)
def sequence_ratio(tokens: Tokens, *, timestep: int = 0) -> Tensor:
    """The importance ratio of the whole rollout to the behavior, or of each of its timesteps, on each of its tokens.

    Equation: Πₜ π(yₜ|y_{<t}) / μ(yₜ|y_{<t}), over the tokens of the timestep.
    Args: timestep, trainable tokens of a timestep, ≥ 1; 0 for the whole rollout.
    Returns: multiplier per token, > 0, equal over a timestep.
    Source: Precup et al. 2000 (ICML, "Eligibility traces for off-policy policy evaluation").
    """
    return _exp(tokens.per_sequence(tokens.logp - tokens.behavior_logp, timestep))


@reaches(Reach.SEQUENCE)
def geometric_clip(tokens: Tokens, *, low: float, high: float) -> Tensor:
    """The geometric mean of a rollout's ratios, zero once it has moved far enough the way the advantage points.

    Equation: s · 1[not (A > 0 and s > 1+high) and not (A < 0 and s < 1−low)], s = (Πₜ ρₜ)^(1/|o|).
        Under the mean over its tokens this is the gradient of min(sA, clip(s)·A) divided by A.
    Args: low, high, width of the band of s below and above 1, ≥ 0.
    Returns: multiplier per token, ≥ 0, equal over a rollout.
    Source: Zheng et al. 2025 (GSPO), arXiv 2507.18071.
    """
    return _one_sided(_exp(_geometric(tokens, tokens.log_ratio)), tokens.advantage, 1 - low, 1 + high)


@reaches(Reach.SEQUENCE)
def geometric_of_clipped(tokens: Tokens, *, low: float, high: float) -> Tensor:
    """The geometric mean of a rollout's clipped ratios; its clipped tokens get no gradient.

    Equation: exp(1/|o| Σₜ clip_A(log ρₜ)) · 1[t not clipped], where clip_A is min(·, high) for A > 0 and
        max(·, −low) for A < 0.
    Args: low, high, width of the band of log ρ below and above 0, ≥ 0.
    Returns: multiplier per token, ≥ 0.
    Source: Zhao et al. 2025 (GMPO), arXiv 2507.20673.
    """
    log_ratio, advantage = tokens.log_ratio, tokens.advantage
    clipped_log_ratio = torch.where(advantage > 0, log_ratio.clamp(max=high), log_ratio)
    clipped_log_ratio = torch.where(advantage < 0, log_ratio.clamp(min=-low), clipped_log_ratio)
    mean = _exp(_geometric(tokens, clipped_log_ratio))
    return torch.where(
        clipped_log_ratio == log_ratio, mean, torch.where(log_ratio.isnan(), log_ratio, torch.zeros_like(mean))
    )


@reaches(Reach.TOKEN)
def clipped_or_shaped(tokens: Tokens, *, low: float, high: float, gamma: float) -> Tensor:
    """`ppo_clip` for sampled rollouts; for demonstrated ones the slope of a shaped probability.

    The shape lifts tokens that the policy finds unlikely over those it would have chosen anyway: π/(π + γ) is
    steepest, per log π, at π = γ.

    Equation: π·γ/(π + γ)² where demonstrated, the gradient of π/(π + γ)·A divided by A.
    Args: low, high, as in `ppo_clip`; gamma, γ > 0.
    Returns: multiplier per token, ≥ 0; at most ¼ where demonstrated.
    Source: Yan et al. 2025 (LUFFY), arXiv 2504.14945 (γ = 0.1).
    """
    ratio = ppo_clip(tokens, low=low, high=high)
    if tokens.demonstrated is None:
        return ratio
    chance = _exp(tokens.logp)
    return torch.where(tokens.demonstrated, chance * gamma / (chance + gamma).square(), ratio)


@reaches(Reach.TOKEN)
def unclipped_or_shaped(tokens: Tokens, *, gamma: float) -> Tensor:
    """The importance ratio for sampled rollouts; for demonstrated ones the slope of a shaped probability.

    Equation: ρ, and π·γ/(π + γ)² where demonstrated, as in `clipped_or_shaped`.
    Args: gamma, γ > 0.
    Returns: multiplier per token, ≥ 0; at most ¼ where demonstrated.
    Source: ElliottYan/LUFFY, train.sh (γ = 0.1).
    """
    return clipped_or_shaped(tokens, low=math.inf, high=math.inf, gamma=gamma)


@reaches(Reach.TOKEN)
def capped_to_sampler(tokens: Tokens, *, cap: float) -> Tensor:
    """The ratio to the behavior with a ceiling; every token keeps a gradient.

    Equation: min(π/μ, cap), a detached weight of A·∇log π.
    Args: cap, > 0.
    Returns: multiplier per token, > 0 and at most cap.
    Source: Khatri et al. 2025 (ScaleRL), arXiv 2510.13786, §4.
    Differs: from `capped`, which stands by the proximal policy: here the sampler is the only centre.
    """
    return _exp(tokens.logp - tokens.behavior_logp).clamp(max=cap)


@reaches(Reach.TOKEN)
def probability_clip(tokens: Tokens, *, low: float, high: float, cap: float) -> Tensor:
    """The importance ratio to the behavior, zero once a token's *probability* has moved far enough, with a ceiling.

    A ratio lets a rare token move by next to nothing and a common one by much; a difference of probabilities is the
    part of the total variation that the token shows.

    Equation: min(π/μ, cap) · 1[not (A > 0 and π − μ > high) and not (A < 0 and π − μ < −low)].
    Args: low, high, width of the band of π − μ below and above 0, ≥ 0; cap, > 0.
    Returns: multiplier per token, ≥ 0 and at most cap.
    Source: DPPO 2026, arXiv 2602.04879.
    Differs: from the other ratios, which stand by the proximal policy: the band lies around the behavior.
    """
    moved = tokens.logp.exp() - tokens.behavior_logp.exp()
    weight = _exp(tokens.logp - tokens.behavior_logp).clamp(max=cap)
    outside = ((tokens.advantage > 0) & (moved > high)) | ((tokens.advantage < 0) & (moved < -low))
    return torch.where(outside, torch.zeros_like(weight), weight)


@reaches(Reach.SEQUENCE)
def tapered(tokens: Tokens) -> Tensor:
    """One for answers to be raised; for answers to be lowered the whole rollout's ratio to the behavior, at most one.

    An answer that the policy has given up is not pushed down without end, and one that it has yet to learn is not
    ignored for being unlikely.

    Equation: 1 where A > 0, min(Πₜ π/μ, 1) elsewhere.
    Returns: multiplier per token, > 0 and at most 1, equal over a rollout.
    Source: Le Roux et al. 2025 (TOPR), arXiv 2503.14286.
    """
    ratio = sequence_ratio(tokens)
    whole = ratio / ratio  # One, and no number where the ratio is none.
    return torch.where(tokens.advantage > 0, whole, ratio.clamp(max=1))


@reaches(Reach.TOKEN)
def no_correction(tokens: Tokens) -> Tensor:
    """Take the behavior for the proximal policy: one everywhere."""
    return torch.ones_like(tokens.logp)


@reaches(Reach.TOKEN)
def truncated(tokens: Tokens, *, cap: float) -> Tensor:
    """Truncated importance weight of each token, for a sampler that is not quite the proximal policy.

    Equation: min(π_prox/μ, cap).
    Args: cap, > 0; 2 is usual.
    Returns: multiplier per token, > 0 and at most cap.
    Source: Yao et al. 2025, fengyao.notion.site/off-policy-rl.
    """
    return _exp(tokens.log_mismatch).clamp(max=cap)


@reaches(Reach.TOKEN)
def banded(tokens: Tokens, *, least: float, most: float) -> Tensor:
    """The importance weight of each token inside a band, zero outside.

    Equation: w · 1[least ≤ w ≤ most], w = π_prox/μ.
    Args: least, most, edges of the band, 0 ≤ least ≤ 1 ≤ most.
    Returns: multiplier per token, zero or in the band.
    Source: Ling team 2025 (IcePop), arXiv 2510.18855.
    """
    weight = _exp(tokens.log_mismatch)
    return torch.where((weight < least) | (weight > most), torch.zeros_like(weight), weight)


@reaches(Reach.SEQUENCE)
def sequence_truncated(tokens: Tokens, *, cap: float) -> Tensor:
    """Truncated importance weight of the whole rollout, on each of its tokens.

    Equation: min(Πₜ π_prox/μ, cap).
    Args: cap, > 0.
    Returns: multiplier per token, > 0 and at most cap, equal over a rollout.
    Source: Liu et al. 2025, "When speed kills stability" (sequence-level truncated importance sampling).
    """
    return _exp(tokens.per_sequence(tokens.log_mismatch)).clamp(max=cap)


@reaches(Reach.SEQUENCE)
def sequence_masked(tokens: Tokens, *, cap: float) -> Tensor:
    """The importance weight of the whole rollout, zero above a cap.

    Equation: w · 1[w ≤ cap], w = Πₜ π_prox/μ.
    Args: cap, ≥ 1.
    Returns: multiplier per token, ≥ 0 and at most cap, equal over a rollout.
    Source: Qi et al. 2025, arXiv 2510.26788.
    """
    weight = _exp(tokens.per_sequence(tokens.log_mismatch))
    return torch.where(weight > cap, torch.zeros_like(weight), weight)


@reaches(Reach.SEQUENCE)
def geometric_mask(tokens: Tokens, *, least: float, most: float) -> Tensor:
    """One for rollouts whose mean log-weight is small, zero for the others; no weight.

    Equation: 1[least ≤ (Πₜ π_prox/μ)^(1/|o|) ≤ most].
    Args: least, most, edges of the band, 0 ≤ least ≤ 1 ≤ most.
    Returns: multiplier per token, zero or one, equal over a rollout.
    Source: verl, docs/algo/rollout_corr_math.md (geometric rejection).
    """
    mean = _exp(_geometric(tokens, tokens.log_mismatch))
    mask = torch.where((mean < least) | (mean > most), torch.zeros_like(mean), torch.ones_like(mean))
    return torch.where(mean.isnan(), mean, mask)


def _one_sided(ratio: Tensor, advantage: Tensor, floor: float, ceiling: float) -> Tensor:
    outside = ((advantage > 0) & (ratio > ceiling)) | ((advantage < 0) & (ratio < floor))
    return torch.where(outside, torch.zeros_like(ratio), ratio)


def _geometric(tokens: Tokens, log_ratio: Tensor) -> Tensor:
    return tokens.per_sequence(log_ratio) / tokens.lengths


def _exp(log_ratio: Tensor) -> Tensor:
    return log_ratio.clamp(-LIMIT, LIMIT).exp()
