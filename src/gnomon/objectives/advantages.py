"""Rewards of whole groups in, advantages out: [groups, N] to [groups, N], one row per task."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from gnomon.objectives.counts import CountWeight

__all__ = [
    "best_of",
    "best_of_less_others",
    "best_of_marginal",
    "count_advantage",
    "leave_one_out",
    "max_less_others",
    "mean_centred",
    "positive_part",
    "raw",
    "relative_exponential",
    "relative_exponential_leave_one_out",
    "sample_standardised",
    "standardise",
]


def raw(rewards: Tensor) -> Tensor:
    """The reward itself, no baseline.

    Equation: Aᵢ = rᵢ.
    Returns: advantage per rollout; positive raises its probability.
    Source: Williams 1992, doi 10.1007/BF00992696.
    """
    return _groups(rewards).clone()


def positive_part(rewards: Tensor) -> Tensor:
    """The reward where it is positive, zero elsewhere.

    Equation: Aᵢ = max(rᵢ, 0).
    Returns: advantage per rollout, ≥ 0.
    Source: Xiong et al. 2025, arXiv 2504.11343 (RAFT++).
    """
    return _groups(rewards).clamp(min=0)


def leave_one_out(rewards: Tensor) -> Tensor:
    """The reward minus the mean reward of the *other* rollouts of its group.

    Equation: Aᵢ = rᵢ − 1/(N−1) Σ_{j≠i} rⱼ = N/(N−1) · (rᵢ − r̄).
    Returns: advantage per rollout; sums to zero over a group.
    Raises: ValueError for groups of one, where there are no others.
    Source: Kool et al. 2019 (ICLR workshop, "Buy 4 REINFORCE samples"); Ahmadian et al. 2024, arXiv 2402.14740.
    """
    size = _groups(rewards).shape[1]
    if size < 2:
        raise ValueError("leave-one-out needs groups of at least two: a group of one has no others to compare with")
    return mean_centred(rewards) * (size / (size - 1))


def mean_centred(rewards: Tensor) -> Tensor:
    """The reward minus the mean reward of its group, itself included.

    Equation: Aᵢ = rᵢ − r̄.
    Returns: advantage per rollout; sums to zero over a group, exactly zero where all rewards are equal.
    Source: Liu et al. 2025, arXiv 2503.20783.
    """
    centred = _groups(rewards) - rewards.mean(dim=1, keepdim=True)
    return torch.where(_equal_rewards(rewards), torch.zeros_like(centred), centred)


def standardise(rewards: Tensor, *, epsilon: float) -> Tensor:
    """The reward in population standard deviations from the mean of its group.

    Equation: Aᵢ = (rᵢ − r̄) / (σ + ε), σ² = 1/N Σⱼ (rⱼ − r̄)².
    Args: epsilon, added to the deviation, ≥ 0; in units of reward.
    Returns: advantage per rollout; exactly zero where all rewards are equal, also at ε = 0.
    Source: Shao et al. 2024, arXiv 2402.03300, §4.1.2.
    Differs: released code often divides by the sample deviation (N−1), a factor √((N−1)/N) smaller.
    """
    centred = mean_centred(rewards)
    deviation = centred.square().mean(dim=1, keepdim=True).sqrt() + epsilon
    undecided = _equal_rewards(rewards)
    return centred / torch.where(undecided, torch.ones_like(deviation), deviation)


def sample_standardised(rewards: Tensor, *, epsilon: float) -> Tensor:
    """The reward in sample standard deviations from the mean of its group.

    Equation: Aᵢ = (rᵢ − r̄) / (s + ε), s² = 1/(N−1) Σⱼ (rⱼ − r̄)².
    Args: epsilon, added to the deviation, ≥ 0; in units of reward.
    Returns: advantage per rollout; exactly zero where all rewards are equal, and for a group of one.
    Source: verl, compute_grpo_outcome_advantage (ε = 1e-6).
    Differs: there a group of one keeps its reward.
    """
    centred, size = mean_centred(rewards), rewards.shape[1]
    deviation = (centred.square().sum(dim=1, keepdim=True) / max(size - 1, 1)).sqrt() + epsilon
    undecided = _equal_rewards(rewards)
    return centred / torch.where(undecided, torch.ones_like(deviation), deviation)


def relative_exponential(rewards: Tensor, *, beta: float) -> Tensor:
    """The exponential of the reward relative to its mean in the group, less one: from E[r] to the best reward.

    Equation: Aᵢ = (e^{βrᵢ} / mean_j e^{βrⱼ} − 1)/β.
    Args: beta, β > 0, per unit of reward; small values give `mean_centred`.
    Returns: advantage per rollout; sums to zero over a group, exactly zero where all rewards are equal.
    Source: Jiang et al. 2025 (RS-GRPO), arXiv 2509.24261, and Jackory/RS-GRPO.
    """
    weight = (beta * (_groups(rewards) - rewards.amax(dim=1, keepdim=True))).exp()
    return _zero_if_equal(rewards, (weight / weight.mean(dim=1, keepdim=True) - 1) / beta)


def relative_exponential_leave_one_out(rewards: Tensor, *, beta: float) -> Tensor:
    """`relative_exponential` by the mean over the *other* rollouts.

    Equation: Aᵢ = (e^{βrᵢ} / mean_{j≠i} e^{βrⱼ} − 1)/β.
    Returns: advantage per rollout; exactly zero where all rewards are equal.
    Raises: ValueError for groups of one.
    """
    size = _groups(rewards).shape[1]
    if size < 2:
        raise ValueError("leave-one-out needs groups of at least two: a group of one has no others to compare with")
    scaled = beta * rewards
    others = scaled[:, None, :].expand(-1, size, -1).masked_fill(torch.eye(size, dtype=torch.bool), -math.inf)
    log_mean = others.logsumexp(dim=2) - math.log(size - 1)
    return _zero_if_equal(rewards, (scaled - log_mean).expm1() / beta)


def count_advantage(rewards: Tensor, *, weight: Callable[[int], CountWeight]) -> Tensor:
    """What a count weight gives, from the successes of each group.

    Equation: Aᵢ = a(K) if rᵢ = 1, b(K) if rᵢ = 0, K = Σⱼ rⱼ.
    Args: weight, the count weight of a group of N.
    Returns: advantage per rollout.
    Raises: ValueError for a reward other than 0 and 1: there is no count then.
    """
    if not ((_groups(rewards) == 0) | (rewards == 1)).all():
        raise ValueError("this objective counts successes: every reward must be 0 or 1")
    count_weight = weight(rewards.shape[1])
    count = rewards.sum(dim=1, keepdim=True).long()
    success, failure = rewards.new_tensor(count_weight.success), rewards.new_tensor(count_weight.failure)
    return torch.where(rewards == 1, success[count], failure[count])


def best_of(rewards: Tensor, *, k: int) -> Tensor:
    """k times the mean best reward of the subsets of k rollouts that hold this one.

    Equation: Aᵢ = k / C(N−1, k−1) Σ_{I∋i, |I|=k} max_{j∈I} rⱼ.
    Returns: advantage per rollout; of rewards 0 and 1, k for a success.
    Raises: ValueError for groups smaller than k.
    Source: Walder & Karkhanis 2025 (PKPO), arXiv 2505.15201, the estimator s.
    """
    size = _enough(rewards, k)
    ways = [math.comb(rank, k - 1) for rank in range(size)]
    above = [math.comb(rank - 1, k - 2) if rank and k > 1 else 0 for rank in range(size)]
    return k * _over_subsets(rewards, ways, above, math.comb(size - 1, k - 1), own=True)


def best_of_less_others(rewards: Tensor, *, k: int) -> Tensor:
    """`best_of`, less k times the mean best reward of the subsets of k other rollouts.

    Equation: Aᵢ = best_ofᵢ − k / C(N−1, k) Σ_{I∌i, |I|=k} max_{j∈I} rⱼ.
    Returns: advantage per rollout; exactly zero where all rewards are equal.
    Raises: ValueError for groups of k or fewer.
    Source: Walder & Karkhanis 2025 (PKPO), arXiv 2505.15201, the leave-one-out baseline.
    """
    _enough(rewards, k + 1)
    return _zero_if_equal(rewards, best_of(rewards, k=k) - k * _best_of_others(rewards, k))


def best_of_marginal(rewards: Tensor, *, k: int) -> Tensor:
    """k times what this rollout adds to the best of k−1 others, on average.

    Equation: Aᵢ = k / C(N−1, k−1) Σ_{J∌i, |J|=k−1} (max(rᵢ, max_{j∈J} rⱼ) − max_{j∈J} rⱼ).
    Args: k, at least 2: nothing is the best of no rollouts.
    Returns: advantage per rollout, never negative; exactly zero where all rewards are equal.
    Raises: ValueError for groups smaller than k.
    Source: Walder & Karkhanis 2025 (PKPO), arXiv 2505.15201, the baseline of leave-one-out minus one.
    """
    _enough(rewards, k)
    return _zero_if_equal(rewards, best_of(rewards, k=k) - k * _best_of_others(rewards, k - 1))


def max_less_others(rewards: Tensor) -> Tensor:
    """The best reward of the group less the best of the other rollouts: not zero for a sole best alone.

    Equation: Aᵢ = max_j rⱼ − max_{j≠i} rⱼ.
    Returns: advantage per rollout, never negative.
    Raises: ValueError for groups of one.
    Source: Tang, Zheng, Synnaeve & Munos 2025, arXiv 2503.19595, the best of k with k = N and the others left out as
        the baseline.
    Differs: verl's grpo_passk pays one rollout of several that are equally good, and divides by the deviation.
    """
    if _groups(rewards).shape[1] < 2:
        raise ValueError("the best of the others needs groups of at least two")
    best = rewards.topk(2, dim=1).values
    rest = torch.where(rewards == best[:, :1], best[:, 1:], best[:, :1])
    return best[:, :1] - rest


def _best_of_others(rewards: Tensor, k: int) -> Tensor:
    """The mean best reward of the subsets of k rollouts without this one."""
    size = rewards.shape[1]
    below = [math.comb(rank, k - 1) for rank in range(size)]
    above = [math.comb(rank - 1, k - 1) if rank else 0 for rank in range(size)]
    return _over_subsets(rewards, below, above, math.comb(size - 1, k), own=False)


def _over_subsets(rewards: Tensor, below: list[int], above: list[int], subsets: int, *, own: bool) -> Tensor:
    """Σⱼ r₍ⱼ₎·c(j, i) / subsets over the places j in order of reward.

    c is `above[j]` for places above i's. Below it c is `below[j]`, unless i is counted itself (`own`): then it is
    zero there and `below[i]` at i's own place.
    """
    order = rewards.sort(dim=1)
    low = order.values * rewards.new_tensor([ways / subsets for ways in below])
    high = order.values * rewards.new_tensor([ways / subsets for ways in above])
    upward = high.flip(1).cumsum(1).flip(1) - high
    total = upward + (low if own else low.cumsum(1) - low)
    return torch.empty_like(rewards).scatter(1, order.indices, total)


def _zero_if_equal(rewards: Tensor, advantage: Tensor) -> Tensor:
    return torch.where(_equal_rewards(rewards), torch.zeros_like(advantage), advantage)


def _enough(rewards: Tensor, least: int) -> int:
    size = _groups(rewards).shape[1]
    if size < least:
        raise ValueError(f"groups of at least {least} are needed here, not of {size}")
    return size


def _equal_rewards(rewards: Tensor) -> Tensor:
    """[groups, 1] whether every rollout of a group earned the same: rounding must not tell them apart."""
    return (rewards == rewards[:, :1]).all(dim=1, keepdim=True)


def _groups(rewards: Tensor) -> Tensor:
    if rewards.dim() != 2 or rewards.shape[1] < 1 or not rewards.is_floating_point():
        shape, dtype = list(rewards.shape), rewards.dtype
        raise ValueError(f"rewards are a floating-point [groups, N] table with N ≥ 1, not {shape} of {dtype}")
    return rewards
