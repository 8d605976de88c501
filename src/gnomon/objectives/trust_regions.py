"""Trust regions other than PPO's: tokens in, [T] multipliers of the advantage out.

As in `ratios`, every multiplier is finite, and a log-ratio that is not a number is not hidden.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnomon.objectives.ratios import LIMIT, dual_clip, ppo_clip, unclipped
from gnomon.objectives.token_credit import discount
from gnomon.objectives.tokens import Reach, Tokens, reaches

__all__ = [
    "balanced_clip",
    "clip_by_likelihood",
    "clip_mask",
    "covariance_clip",
    "divergence_clip",
    "future_weighted_clip",
    "group_expectation_clip",
    "held_clip",
    "inverted_for_gains",
    "kernel_of_sequence",
    "probability_mask",
    "second_moment_mask",
    "share_of_labels",
    "without_drifted_failures",
]


@reaches(Reach.TOKEN)
def held_clip(tokens: Tokens, *, low: float, high: float, ceiling: float) -> Tensor:
    """The ratio held at the edge of PPO's clip, so that a clipped token keeps a gradient of bounded size.

    Equation: min(ρ, 1+high) where A > 0, max(ρ, 1−low)·1[ρ ≤ c] elsewhere.
    Args: low, high, width of the band below and above 1, ≥ 0; ceiling, c > 1.
    Returns: multiplier per token, ≥ 0 and at most max(1+high, c).
    Source: Su et al. 2025 (GPPO), arXiv 2508.07629.
    """
    ratio = unclipped(tokens)
    lowered = torch.where(ratio > ceiling, torch.zeros_like(ratio), ratio.clamp(min=1 - low))
    return torch.where(tokens.advantage > 0, ratio.clamp(max=1 + high), lowered)


@reaches(Reach.TOKEN)
def inverted_for_gains(tokens: Tokens, *, low: float, high: float, cap: float) -> Tensor:
    """PPO's clip with the ratio of tokens to be raised turned over: those that lag behind are raised most.

    Equation: min(1/ρ, cap)·1[ρ ≤ 1+high] where A > 0, min(ρ, cap)·1[ρ ≥ 1−low] elsewhere.
    Args: low, high, width of the band below and above 1, ≥ 0; cap, > 1.
    Returns: multiplier per token, ≥ 0 and at most cap.
    Source: Wang et al. 2025 (ASPO), arXiv 2510.06062, and Archer2.0.
    """
    ratio = unclipped(tokens)
    clipped_ratio = ppo_clip(tokens, low=low, high=high)
    weight = torch.where(tokens.advantage > 0, 1 / ratio, ratio).clamp(max=cap)
    return torch.where(clipped_ratio == 0, clipped_ratio, weight)


@reaches(Reach.TOKEN)
def clip_by_likelihood(tokens: Tokens, *, low: float, high: float, ceiling: float) -> Tensor:
    """PPO's clip with a band that is wider the less likely a token was, so that rare tokens can rise.

    Equation: ρ·1[not (A > 0 and ρ > b) and not (A < 0 and (ρ < a or ρ > c))], a = ½ + ½√max(1 − 4·low/q, 0),
        b = min(½ + ½√(1 + 4·high/q), c), q the token's probability at the centre: inside (ρ − 1)·ρ·q ≤ high.
    Args: low, high, ≥ 0; ceiling, c > 1.
    Returns: multiplier per token, ≥ 0 and at most c, except where A = 0.
    Source: Yang et al. 2025 (DCPO), arXiv 2509.02333; lime-RL/DCPO.
    """
    ratio = unclipped(tokens)
    chance = (tokens.logp - tokens.log_ratio).clamp(min=-LIMIT).exp()
    least = 0.5 + 0.5 * (1 - 4 * low / chance).clamp(min=0).sqrt()
    most = (0.5 + 0.5 * (1 + 4 * high / chance).sqrt()).clamp(max=ceiling)
    raised, lowered = tokens.advantage > 0, tokens.advantage < 0
    lost = (raised & (ratio > most)) | (lowered & ((ratio < least) | (ratio > ceiling)))
    return torch.where(lost, torch.zeros_like(ratio), ratio)


@reaches(Reach.TOKEN)
def clip_mask(tokens: Tokens, *, low: float, high: float) -> Tensor:
    """PPO's clip without the ratio: one inside, zero once a token has moved far enough the way its advantage points.

    Equation: 1[not (A > 0 and ρ > 1+high) and not (A < 0 and ρ < 1−low)].
    Returns: multiplier per token, zero or one.
    Source: Liu et al. 2025 (CPGD), arXiv 2505.12504, eq. 2.
    """
    return ppo_clip(tokens, low=low, high=high) / unclipped(tokens)


@reaches(Reach.STEP)
def covariance_clip(tokens: Tokens, *, low: float, high: float, share: float, least: float, most: float) -> Tensor:
    """`ppo_clip`, less of it on tokens whose advantage and log-probability deviate together: they lower the entropy.

    The source draws a few tokens of a band and takes their gradient away; here every token of the band keeps what it
    keeps on average over the draw.

    Equation: clip(ρ; A)·(1 − min(1, n/|B|)·1[t ∈ B]), n = max(1, ⌊share·T⌋),
        B = {t not clipped: least < (Aₜ − Ā)(log πₜ − mean log π) < most}, means over the T tokens of the step.
    Args: low, high, as in `ppo_clip`; share, of the tokens, 0 … 1; least, most, ends of the band of the covariance.
    Returns: multiplier per token, ≥ 0.
    Source: Cui et al. 2025, arXiv 2505.22617; verl, clip_cov.
    """
    ratio, count = ppo_clip(tokens, low=low, high=high), max(len(tokens), 1)
    deviation = tokens.advantage - _ordered_sum(tokens.advantage) / count
    covariance = deviation * (tokens.logp - _ordered_sum(tokens.logp) / count)
    band = (covariance > least) & (covariance < most) & (ratio != 0)
    chance = min(1.0, max(1, int(share * count)) / max(int(band.sum()), 1))
    return torch.where(band, ratio * (1 - chance), ratio)


@reaches(Reach.STEP)
def second_moment_mask(tokens: Tokens, *, limit: float) -> Tensor:
    """The ratio to the behavior, zero on the tokens that moved farthest: as few as bring the second moment below a
    limit.

    Equation: π/μ·1[l² < b], l = log(π/μ), b the least l² such that the mean of l² over the tokens with l² ≤ b exceeds
        the limit; no token is left out where the mean over all does not.
    Args: limit, τ > 0, in squared nats.
    Returns: multiplier per token, ≥ 0. Tokens level with the first that is left out are left out too.
    Source: Zheng et al. 2025 (M2PO), arXiv 2510.01161; AReaL, m2_threshold.
    """
    log_ratio = (tokens.logp - tokens.behavior_logp).clamp(-LIMIT, LIMIT)
    ratio, moved = log_ratio.exp(), log_ratio.square()
    ordered = moved.sort().values
    mean = ordered.cumsum(0) / torch.arange(1, 1 + len(ordered), device=ordered.device)
    beyond = ordered[mean > limit]
    return torch.where(moved >= beyond[0], torch.zeros_like(ratio), ratio) if len(beyond) else ratio


@reaches(Reach.SEQUENCE)
def future_weighted_clip(tokens: Tokens, *, low: float, high: float, half_life: float, most: float) -> Tensor:
    """`ppo_clip`, more of it on tokens that lead to what the policy has come to prefer.

    Equation: clip(ρ; A)·min(max(1, e^{Fₜ}), c), Fₜ = Σ_{s≥t} γ^{s−t} log ρₛ over the rest of the rollout,
        γ = 2^{−1/half_life}.
    Args: low, high, as in `ppo_clip`; half_life, tokens after which a log-ratio counts half, > 0; most, c ≥ 1.
    Returns: multiplier per token, ≥ 0.
    Source: Ma et al. 2026 (FIPO), arXiv 2603.19835.
    """
    index = (tokens.sequence, tokens.positions)
    table = tokens.logp.new_zeros([int(at.max()) + 1 if len(tokens) else 0 for at in index])
    table[index] = tokens.log_ratio.clamp(-LIMIT, LIMIT)
    future = discount(table, 2 ** (-1 / half_life))[index]
    return ppo_clip(tokens, low=low, high=high) * future.clamp(-LIMIT, LIMIT).exp().clamp(1, most)


@reaches(Reach.TOKEN)
def divergence_clip(tokens: Tokens, *, low: float, high: float, cap: float) -> Tensor:
    """The ratio to the behavior with a ceiling, zero once the two-way divergence of a token is too large.

    Each token is taken for a coin: this token, or any other. The divergence is that of the two coins.

    Equation: min(π/μ, cap) · 1[not (A > 0 and π > μ and d > high) and not (A < 0 and π < μ and d > low)],
        d = μ·log(μ/π) + (1−μ)·log((1−μ)/(1−π)).
    Args: low, high, the largest divergence of tokens to be lowered and to be raised, in nats, ≥ 0; cap, > 0.
    Returns: multiplier per token, ≥ 0 and at most cap.
    Source: DPPO 2026, arXiv 2602.04879; verl, dppo_kl.
    """
    log_ratio = tokens.logp - tokens.behavior_logp
    mine, theirs = (1 - tokens.logp.exp()).clamp(min=0), (1 - tokens.behavior_logp.exp()).clamp(min=0)
    divergence = torch.xlogy(theirs, theirs) - torch.xlogy(theirs, mine) - tokens.behavior_logp.exp() * log_ratio
    weight = log_ratio.clamp(-LIMIT, LIMIT).exp().clamp(max=cap)
    raised = (tokens.advantage > 0) & (log_ratio > 0) & (divergence > high)
    lowered = (tokens.advantage < 0) & (log_ratio < 0) & (divergence > low)
    return torch.where(raised | lowered, torch.zeros_like(weight), weight)


@reaches(Reach.TOKEN)
def probability_mask(tokens: Tokens, *, width: float) -> Tensor:
    """The ratio to the behavior, zero once a token's probability has moved too far either way.

    Equation: π/μ · 1[|π − μ| ≤ width].
    Args: width, 0 … 1.
    Returns: multiplier per token, ≥ 0.
    Source: prime-rl, loss ipo.
    """
    log_ratio = tokens.logp - tokens.behavior_logp
    weight = log_ratio.clamp(-LIMIT, LIMIT).exp()
    apart = (tokens.logp.exp() - tokens.behavior_logp.exp()).abs()
    return torch.where(apart > width, torch.zeros_like(weight), weight)


@reaches(Reach.SEQUENCE)
def without_drifted_failures(tokens: Tokens, *, low: float, high: float, limit: float) -> Tensor:
    """`ppo_clip`, and zero on the whole of a rollout to be lowered that the policy would hardly give any more.

    Equation: clip(ρ; A) · 1[not (A < 0 and mean_t log(μ/π) > δ)].
    Args: low, high, as in `ppo_clip`; limit, δ in nats per token, ≥ 0.
    Returns: multiplier per token, ≥ 0.
    Source: DeepSeek-AI 2025 (DeepSeek-V3.2), arXiv 2512.02556, §3.1, off-policy sequence masking.
    """
    ratio = ppo_clip(tokens, low=low, high=high)
    drift = tokens.per_sequence(tokens.behavior_logp - tokens.logp) / tokens.lengths
    return torch.where((tokens.advantage < 0) & (drift > limit), torch.zeros_like(ratio), ratio)


@reaches(Reach.SEQUENCE)
def kernel_of_sequence(
    tokens: Tokens, *, gain_power: float, gain_decay: float, loss_power: float, loss_decay: float
) -> Tensor:
    """A smooth weight of the whole rollout that rises as a power of its ratio and falls off exponentially.

    Equation: Wᵏ·e^{λ(1−W)}, W = Πₜ π/μ; (k, λ) by the sign of A.
    Args: gain_power, gain_decay, k and λ where A ≥ 0; loss_power, loss_decay, elsewhere; all > 0.
    Returns: multiplier per token, one at W = 1, greatest at W = k/λ, equal over a rollout.
    Source: VESPO 2026, arXiv 2602.10693; TRL, loss_type = vespo.
    """
    log_weight = tokens.per_sequence(tokens.logp - tokens.behavior_logp).clamp(-LIMIT, LIMIT)
    lowered = tokens.advantage < 0
    one = torch.ones_like(log_weight)
    power = torch.where(lowered, loss_power * one, gain_power * one)
    decay = torch.where(lowered, loss_decay * one, gain_decay * one)
    return (power * log_weight - decay * log_weight.expm1()).exp()


@reaches(Reach.GROUP)
def group_expectation_clip(tokens: Tokens, *, low: float, high: float) -> Tensor:
    """The rollout's likelihood per token over what the group's sampler expects of it, clipped as PPO clips a ratio.

    One group has one denominator, so a single rollout that the sampler found unlikely cannot blow up its weight. It is
    not one on policy: likely rollouts weigh more.

    Equation: c·1[not (A > 0 and c > 1+high) and not (A < 0 and c < 1−low)], c = Pᵢ / (Σⱼ Qⱼ² / Σⱼ Qⱼ),
        P and Q the geometric mean of a rollout's token probabilities under policy and behavior.
    Args: low, high, width of the band of c below and above 1, ≥ 0.
    Returns: multiplier per token, ≥ 0, equal over a rollout.
    Source: GEPO 2025, arXiv 2508.17850.
    """
    mine = tokens.per_sequence(tokens.logp) / tokens.lengths
    theirs = tokens.per_sequence(tokens.behavior_logp) / tokens.lengths
    groups = int(tokens.group.max()) + 1 if len(tokens) else 0
    top = theirs.new_zeros(groups).scatter_reduce(0, tokens.group, theirs, "amax", include_self=False)[tokens.group]
    share = (theirs - top).exp()
    expected = top + (tokens.per_group(share.square()) / tokens.per_group(share)).log()
    weight = (mine - expected).clamp(-LIMIT, LIMIT).exp()
    outside = ((tokens.advantage > 0) & (weight > 1 + high)) | ((tokens.advantage < 0) & (weight < 1 - low))
    return torch.where(outside, torch.zeros_like(weight), weight)


@reaches(Reach.GROUP)
def share_of_labels(tokens: Tokens, *, temperature: float) -> Tensor:
    """How much of its side a rollout is: a softmax over the right or the wrong rollouts of its group, and a one.

    Equation: e^{∓s/τ} / (1 + Σ_{j on the same side} e^{∓sⱼ/τ}), − where A > 0, + elsewhere, s = mean_t log ρₜ: τ times
        the derivative of −log(1 + Σ₊ e^{−s/τ}) − log(1 + Σ₋ e^{s/τ}) in s, by its size.
    Args: temperature, τ > 0.
    Returns: multiplier per token, 0 … 1, equal over a rollout; 1/(1 + rollouts on its side) on policy.
    Source: REAL 2026, arXiv 2602.05630.
    """
    mean = tokens.per_sequence(tokens.log_ratio) / tokens.lengths
    raised = tokens.advantage > 0
    weight = (torch.where(raised, -mean, mean) / temperature).clamp(-LIMIT, LIMIT).exp()
    nothing = torch.zeros_like(weight)
    right = tokens.per_group(torch.where(raised, weight, nothing))
    wrong = tokens.per_group(torch.where(raised, nothing, weight))
    return weight / (1 + torch.where(raised, right, wrong))


@reaches(Reach.STEP)
def balanced_clip(
    tokens: Tokens, *, floor: float, floor_end: float, top: float, top_end: float, stride: float, ceiling: float
) -> Tensor:
    """`dual_clip` with a band that widens over the batch until what is raised weighs as much as what is lowered.

    The floor of the band rises to its end first, then the top does; the first band that balances is taken, or the last.

    Equation: clip(ρ; A) with 1−low = c_low and 1+high = c_high, the first of the bands with
        Σ_{A>0} min(ρ, c_high)·A ≥ Σ_{A<0} max(ρ, c_low)·|A| over the tokens of the optimiser step.
    Args: floor, floor_end, first and last c_low; top, top_end, first and last c_high; stride, of both; ceiling, as in
        `dual_clip`.
    Returns: multiplier per token, ≥ 0.
    Source: WooooDyy/BAPO.
    """
    ratio, advantage = unclipped(tokens), tokens.advantage
    floors, tops = ends(floor, floor_end, stride), ends(top, top_end, stride)
    lowered = _ordered_sum(torch.maximum(ratio, ratio.new_tensor(floors)[:, None]) * (-advantage).clamp(min=0))
    raised = _ordered_sum(torch.minimum(ratio, ratio.new_tensor(tops)[:, None]) * advantage.clamp(min=0))
    bands = [*((low, 0) for low in range(len(floors))), *((len(floors) - 1, high) for high in range(1, len(tops)))]
    balanced = (band for band in bands if bool(raised[band[1]] >= lowered[band[0]]))
    low, high = next(balanced, bands[-1])
    return dual_clip(tokens, low=1 - floors[low], high=tops[high] - 1, ceiling=ceiling)


def ends(first: float, last: float, stride: float) -> list[float]:
    """Where an end of a band stands, stride after stride, until its last place."""
    return [min(first + stride * k, last) for k in range(1 + max(0, round((last - first) / stride)))]


def _ordered_sum(values: Tensor) -> Tensor:
    """[…] the sum over the last axis, from the smallest up, so that no order of the tokens can change a bit of it."""
    return values.sort(dim=-1).values.sum(dim=-1)
