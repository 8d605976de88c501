"""Credit that is equal over the tokens of a rollout: from its group, the whole step, or the past of the run."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from gnomon.objectives.credit import Advantage, Rollouts
from gnomon.objectives.past import visit_statistics

__all__ = [
    "FADES",
    "blended_over_visits",
    "brevity",
    "by_part",
    "entropy_weighted",
    "greedy_centred",
    "keep_best",
    "length_centred",
    "others_entropy_weighted",
    "others_length_centred",
    "over_deciding_groups",
    "over_nonzero_rewards",
    "over_spread_of_rewards",
    "past_centred",
    "reward_per_token",
    "scaled_by_step",
    "semantic_entropy",
    "target_less_share",
]


def _linear(uncertainty: Tensor) -> Tensor:
    return 1 - uncertainty


def _exponential(uncertainty: Tensor) -> Tensor:
    return (-uncertainty).exp()


def _focal(uncertainty: Tensor) -> Tensor:
    return (1 - uncertainty).square()


FADES: dict[str, Advantage] = {"linear": _linear, "exponential": _exponential, "focal": _focal}
"""Name to f(u): 1 − u, e⁻ᵘ or (1 − u)². One where nothing is uncertain, falling from there."""


def semantic_entropy(answers: Tensor) -> Tensor:
    """How far the answers of a group lie apart: the mean surprise at its distinct answers.

    Equation: SE = −1/|C| Σ_{c∈C} log(n_c/N), over the distinct answers c, each given n_c times.
    Args: answers, [G, N] int64; equal numbers in a group are equal answers.
    Returns: [G] float64 nats, from 0, all equal, to log N, all distinct.
    Source: Chen et al. 2025 (SEED-GRPO), arXiv 2505.12346.
    Differs: an answer's chance is its share of the rollouts, where the paper sums their probabilities.
    """
    size = answers.shape[1]
    times = (answers[:, :, None] == answers[:, None, :]).sum(dim=2).to(torch.float64)
    return ((size / times).log() / times).sum(dim=1) / (1 / times).sum(dim=1)


def entropy_weighted(rollouts: Rollouts, advantage: Advantage, *, alpha: float, fade: Advantage) -> Tensor:
    """The advantage, less of it the farther the answers of the group lie apart.

    Equation: Aᵢ · f(α·SE/log N).
    Args: alpha, α ≥ 0; fade, f, one of `FADES`.
    Returns: [T].
    Raises: ValueError where the answers are not known.
    Source: Chen et al. 2025 (SEED-GRPO), arXiv 2505.12346.
    """
    weight = fade(alpha * _uncertainty(_answers(rollouts)))[:, None]
    return rollouts.spread(weight.to(rollouts.rewards.dtype) * advantage(rollouts.rewards))


def others_entropy_weighted(rollouts: Rollouts, advantage: Advantage, *, alpha: float, fade: Advantage) -> Tensor:
    """The advantage, less of it the farther the *other* answers of the group lie apart.

    The weight of a rollout does not depend on itself, so that beside an advantage whose baseline does not either
    it scales the policy gradient and turns it nowhere.

    Equation: Aᵢ · f(α·SE₋ᵢ/log(N−1)), SE₋ᵢ over the N−1 others. One other alone is certain.
    Args: alpha, α ≥ 0; fade, f, one of `FADES`.
    Returns: [T].
    Raises: ValueError where the answers are not known, and for groups of one.
    """
    answers = _answers(rollouts)
    groups, size = answers.shape
    if size < 2:
        raise ValueError("the entropy of the others needs groups of at least two")
    others = answers[:, None, :].expand(groups, size, size)[:, ~torch.eye(size, dtype=torch.bool)]
    weight = fade(alpha * _uncertainty(others.reshape(groups * size, size - 1)).reshape(groups, size))
    return rollouts.spread(weight.to(rollouts.rewards.dtype) * advantage(rollouts.rewards))


def brevity(rollouts: Rollouts) -> Tensor:
    """[G, N] higher for fewer tokens.

    Source: Shrivastava et al. 2025 (GFPO), arXiv 2508.09726.
    """
    return -rollouts.lengths


def reward_per_token(rollouts: Rollouts) -> Tensor:
    """[G, N] the reward over the number of tokens, of one at least. Of two negative rewards the longer ranks higher.

    Source: Shrivastava et al. 2025 (GFPO), arXiv 2508.09726, token efficiency.
    """
    return rollouts.rewards / rollouts.lengths.clamp(min=1)


def keep_best(
    rollouts: Rollouts,
    advantage: Advantage,
    *,
    score: Callable[[Rollouts], Tensor],
    keep: int,
) -> Tensor:
    """The advantage among the best of the group by another measure than reward; the others have none.

    Equation: Aᵢ from the rewards of the kept set alone, 0 outside; kept are the k of highest score.
    Args: score, [G, N] by which rollouts are kept; keep, k ≥ 1; smaller groups are kept whole.
    Returns: [T].
    Source: Shrivastava et al. 2025 (GFPO), arXiv 2508.09726.
    Differs: rollouts level with the last place are all kept, where the paper drops some by their order.
    """
    scores, rewards = score(rollouts), rollouts.rewards
    bar = scores.topk(min(keep, scores.shape[1]), dim=1).values[:, -1:]
    best = scores >= bar
    sizes = best.sum(dim=1, keepdim=True)
    credit = torch.zeros_like(rewards)
    for size in sorted(set(sizes.flatten().tolist())):
        places = best & (sizes == size)
        credit[places] = advantage(rewards[places].reshape(-1, size)).flatten()
    return rollouts.spread(credit)


def length_centred(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """The advantage less its mean in the group, every rollout weighed by its tokens.

    The rollout itself is in that mean, the longer the more, which bends the gradient; `others_length_centred` leaves
    it out.

    Equation: Aᵢ − Σⱼ|oⱼ|Aⱼ / Σⱼ|oⱼ|.
    Returns: [T]; exactly zero where all rewards of a group are equal.
    Source: Hao et al. 2025 (OPO), arXiv 2505.23585.
    """
    plain, lengths = advantage(rollouts.rewards), rollouts.lengths.to(rollouts.rewards.dtype)
    mean = (plain * lengths).sum(dim=1, keepdim=True) / lengths.sum(dim=1, keepdim=True).clamp(min=1)
    return rollouts.spread(_where_rewards_differ(rollouts.rewards, plain - mean))


def others_length_centred(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """The advantage less the mean of the other rollouts, each weighed by its tokens: no rollout is in its own mean.

    Equation: Aᵢ − Σ_{j≠i}|oⱼ|Aⱼ / Σ_{j≠i}|oⱼ|, the plain mean where no other rollout has a token.
    Returns: [T]; exactly zero where all rewards of a group are equal.
    Raises: ValueError for groups of one.
    """
    plain = advantage(rollouts.rewards)
    groups, size = plain.shape
    if size < 2:
        raise ValueError("the mean of the others needs groups of at least two")
    tokens = rollouts.lengths[:, None, :].expand(groups, size, size) * ~torch.eye(size, dtype=torch.bool)
    alone = tokens.sum(dim=2, keepdim=True) == 0
    weight = torch.where(alone, 1 - torch.eye(size, dtype=plain.dtype), tokens.to(plain.dtype))
    mean = (weight * plain[:, None, :]).sum(dim=2) / weight.sum(dim=2)
    return rollouts.spread(_where_rewards_differ(rollouts.rewards, plain - mean))


def scaled_by_step(rollouts: Rollouts, advantage: Advantage, *, epsilon: float) -> Tensor:
    """The advantage over its deviation in the whole step, groups of a single reward left out of deviation and mean.

    Equation: A·(G/G′)/(σ + ε), σ² = mean A² over the rollouts of the G′ groups with more than one reward, of G.
        Under a mean over G groups the factor makes it a mean over G′.
    Args: epsilon, added to the deviation, ≥ 0; in units of reward.
    Returns: [T]; exactly zero where every group has a single reward.
    Source: Khatri et al. 2025 (ScaleRL), arXiv 2510.13786, §4.
    """
    rewards = rollouts.rewards
    mixed = (rewards != rewards[:, :1]).any(dim=1)
    plain = advantage(rewards)
    if not bool(mixed.any()):
        return rollouts.spread(torch.zeros_like(plain))
    deviation = plain[mixed].square().mean().sqrt()
    return rollouts.spread(plain * (len(mixed) / int(mixed.sum())) / (deviation + epsilon))


def past_centred(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """The advantage less what the run's past expects: unbiased whatever that is, since it knows nothing of the step.

    Equation: Aᵢ − bᵢ.
    Returns: [T].
    Raises: ValueError where nothing is known of the past.
    Source: Liu et al. 2025 (SPIRAL), arXiv 2506.24119, role-conditioned advantage estimation.
    """
    if rollouts.baseline is None:
        raise ValueError("this objective takes off what the past expects, and these rollouts have no baseline")
    return rollouts.spread(advantage(rollouts.rewards) - rollouts.baseline)


def greedy_centred(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """The advantage less the reward of the greedy answer: unbiased, since that answer is the same whatever was sampled.

    Equation: Aᵢ − r(greedy answer).
    Returns: [T].
    Raises: ValueError where there is no greedy rollout.
    Source: Li et al. 2023 (ReMax), arXiv 2310.10505, §4.
    """
    if rollouts.greedy is None:
        raise ValueError("this objective takes off what a greedy rollout earned, and these tasks have none")
    return rollouts.spread(advantage(rollouts.rewards) - rollouts.greedy)


def target_less_share(rollouts: Rollouts, advantage: Advantage, *, temperature: float) -> Tensor:
    """How much likelier, among the answers of its group, a rollout should become.

    Equation: qᵢ − pᵢ, pᵢ = π(yᵢ)/Σⱼ π(yⱼ) and qᵢ ∝ pᵢ·exp(Aᵢ/η), over the rollouts of the group that have tokens.
    Args: temperature, η > 0.
    Returns: [T]; sums to zero over the rollouts of a group, exactly zero where all advantages are.
    Raises: ValueError for rollouts without log-probabilities.
    Source: Kaddour 2026 (TPO), arXiv 2604.06159, eq. 1–3.
    """
    if rollouts.logp is None:
        raise ValueError("a target for the answers of a group needs logp on every token")
    total = rollouts.logp.new_zeros(rollouts.rewards.numel()).index_add(0, rollouts.sequence, rollouts.logp)
    whole = total.reshape(rollouts.rewards.shape).masked_fill(rollouts.lengths == 0, -torch.inf)
    tilt = (advantage(rollouts.rewards) / temperature).to(whole.dtype)
    share, target = whole.softmax(dim=1), (whole + tilt).softmax(dim=1)
    # Pair by pair: the difference of two shares near one would cancel all their digits.
    mine, theirs = (values[:, :, None] * other[:, None, :] for values, other in ((target, share), (share, target)))
    return rollouts.spread((mine - theirs).sum(dim=2))


def _uncertainty(answers: Tensor) -> Tensor:
    """[G] the semantic entropy as a share of the largest one, zero for groups of one."""
    return semantic_entropy(answers) / math.log(max(answers.shape[1], 2))


def _where_rewards_differ(rewards: Tensor, credit: Tensor) -> Tensor:
    """[G, N] credit, zero in groups of a single reward: rounding must not tell their rollouts apart."""
    return torch.where((rewards != rewards[:, :1]).any(dim=1, keepdim=True), credit, torch.zeros_like(credit))


def _answers(rollouts: Rollouts) -> Tensor:
    if rollouts.answers is None:
        raise ValueError("this objective compares answers, and the answers of these rollouts are not known")
    return rollouts.answers


def over_deciding_groups(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """The advantage over the share of the groups that have more than one reward.

    Equation: A·G/G′, G′ groups with more than one reward, of G. Under a mean over G groups it is one over G′.
    Returns: [T]; exactly zero where every group has a single reward.
    Source: Chu et al. 2025 (GPG), arXiv 2504.02546, and AMAP-ML/GPG.
    """
    rewards = rollouts.rewards
    deciding = int((rewards != rewards[:, :1]).any(dim=1).sum())
    return rollouts.spread(advantage(rewards) * (len(rewards) / max(deciding, 1)))


def over_nonzero_rewards(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """The advantage over the share of the rollouts whose reward is not zero: the success rate, for rewards 0 and 1.

    Equation: A·S/#{rⱼ ≠ 0} over the rollouts of the step.
    Returns: [T].
    Source: verl, compute_gpg_outcome_advantage.
    """
    rewards = rollouts.rewards
    return rollouts.spread(advantage(rewards) * (rewards.numel() / max(int((rewards != 0).sum()), 1)))


def over_spread_of_rewards(rollouts: Rollouts, advantage: Advantage, *, epsilon: float) -> Tensor:
    """The advantage over the deviation of all rewards of the step.

    Equation: A/(s + ε), s² = Σ(r − r̄)²/(S − 1) over the rollouts of the step.
    Args: epsilon, added to the deviation, ≥ 0; in units of reward.
    Returns: [T]; exactly zero where all rewards are equal.
    Source: Liu et al. 2025 (Lite PPO), arXiv 2508.08221; TRL, scale_rewards = batch.
    """
    rewards = rollouts.rewards
    if bool((rewards == rewards[:1, :1]).all()):
        return rollouts.spread(torch.zeros_like(rewards))
    return rollouts.spread(advantage(rewards) / (rewards.std() + epsilon))


def by_part(rollouts: Rollouts, advantage: Advantage, *, epsilon: float) -> Tensor:
    """The advantage of every part of the reward by itself, weighted and summed, and standardised over the step.

    Equation: A = Σₙ wₙ·Aₙ, Aₙ the advantage in part n alone; (A − Ā)/(s + ε) over the rollouts of the step.
    Args: epsilon, added to the deviation, ≥ 0.
    Returns: [T]; exactly zero where every part is the same over each group.
    Raises: ValueError for rollouts without the parts of their rewards.
    Source: NVIDIA 2026 (GDPO), arXiv 2601.05242; TRL, normalize_then_sum.
    """
    if rollouts.parts is None or rollouts.part_weights is None:
        raise ValueError("this objective compares rewards part by part, and these rollouts have no parts")
    weighted = zip(rollouts.parts.unbind(2), rollouts.part_weights.unbind(2), strict=True)
    total = sum((weight * advantage(part) for part, weight in weighted), torch.zeros_like(rollouts.rewards))
    if total.numel() < 2 or not bool((total != total[:1, :1]).any()):
        return rollouts.spread(torch.zeros_like(total))
    return rollouts.spread((total - total.mean()) / (total.std() + epsilon))


def blended_over_visits(rollouts: Rollouts, advantage: Advantage, *, epsilon: float) -> Tensor:
    """The advantage in the group, blended with the reward standardised over all visits of the task, whichever is less.

    Equation: A = a₁ if |a₁| < |a₂| else a₂, a₁ = (z + (n−1)·A_g)/n, a₂ = (A_g + (n−1)·z)/n, z = (r − m)/(√v + ε), at
        the n-th visit, m and v as `visit_statistics` has them; A_g the advantage of the row in the group.
    Args: epsilon, added to the deviation, ≥ 0; in units of reward.
    Returns: [T]; at a first visit the advantage in the group, and zero for groups of one. Later it is not zero where
        all rewards of the group are equal, unless those of earlier visits were equal to them too.
    Source: Yang et al. 2025 (DCPO), arXiv 2509.02333; lime-RL/DCPO, compute_dcpo_outcome_advantage.
    Differs: there ε is not added, and a group of one is an error.
    """
    rewards, now = rollouts.rewards, advantage(rollouts.rewards)
    if rollouts.visits is None or rewards.shape[1] == 1:
        return rollouts.spread(now)
    count, mean, variance = visit_statistics(rollouts).to(rewards.dtype).unbind(2)
    deviation = variance.sqrt()
    whole = torch.where(
        deviation > 0, (rewards - mean) / (deviation + epsilon).clamp(min=torch.finfo(rewards.dtype).tiny), 0
    )
    near_now, near_whole = (whole + (count - 1) * now) / count, (now + (count - 1) * whole) / count
    blended = torch.where(near_now.abs() < near_whole.abs(), near_now, near_whole)
    return rollouts.spread(torch.where(count > 1, blended, now))
