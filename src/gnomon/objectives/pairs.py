"""Preferences inside a group: which rollouts are paired, and the weight of each pair, as a multiplier per token.

A pair is a better and a worse rollout of one group; its margin is what the policy has already made of the
difference. The multipliers look at both rollouts of a pair, so their reach is the group. On either side the
sizes of the advantages sum to one; what is missing there belongs to rollouts without a token, which score zero.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gnomon.objectives.advantages import raw
from gnomon.objectives.ratios import LIMIT
from gnomon.objectives.tokens import Reach, Tokens, reaches

__all__ = [
    "best_against_worst",
    "hinge_pairs",
    "logistic_pairs",
    "mean_logistic_pairs",
    "odds_pairs",
    "odds_pairs_by_token",
    "prospect",
    "reference_likelihood",
    "squared_pairs",
    "unanchored_pairs",
]


def best_against_worst(rewards: Tensor) -> Tensor:
    """The best rollouts of a group against its worst; a group whose rewards are all equal gives no pair.

    Of more than two rollouts those between are left out. Where several share the best or the worst reward, every one
    of the best meets every one of the worst and each pair counts its share: what drawing one pair evenly among them
    gives on average.

    Equation: Aᵢ = 1/|B| in B = {rᵢ = max}, −1/|W| in W = {rᵢ = min}, 0 elsewhere; 0 where max = min.
    Returns: advantage per rollout; sums to zero over a group.
    """
    best = (raw(rewards) == rewards.amax(dim=1, keepdim=True)).to(rewards.dtype)
    worst = (rewards == rewards.amin(dim=1, keepdim=True)).to(rewards.dtype)
    return best / best.sum(dim=1, keepdim=True) - worst / worst.sum(dim=1, keepdim=True)


@reaches(Reach.GROUP)
def logistic_pairs(tokens: Tokens, *, beta: float) -> Tensor:
    """The slope of the logistic loss of each pair.

    Equation: β·mean_{opponents} σ(−m), m = β·(Δ_better − Δ_worse), Δ = Σₜ log(π/ref): the derivative of log σ(m)
        in Δ_better, divided by A.
    Args: beta, > 0.
    Returns: multiplier per token, 0 … β, equal over a rollout.
    Raises: ValueError for tokens without a reference.
    Source: Rafailov et al. 2023 (DPO), arXiv 2305.18290.
    """
    return _against_opponents(tokens, _log_ratio(tokens), lambda gap: beta * (-beta * gap).sigmoid())


@reaches(Reach.GROUP)
def squared_pairs(tokens: Tokens, *, beta: float) -> Tensor:
    """How far the margin of a pair is from 1/(2β), either way.

    Equation: mean_{opponents} 1/β − 2(Δ_better − Δ_worse), Δ = Σₜ log(π/ref): the derivative of
        −(Δ_better − Δ_worse − 1/(2β))² in Δ_better, divided by A.
    Args: beta, > 0.
    Returns: multiplier per token, negative for pairs that are too far apart, equal over a rollout; not bounded.
    Raises: ValueError for tokens without a reference.
    Source: Azar et al. 2023 (IPO), arXiv 2310.12036.
    """
    return _against_opponents(tokens, _log_ratio(tokens), lambda gap: 1 / beta - 2 * gap)


@reaches(Reach.GROUP)
def hinge_pairs(tokens: Tokens, *, beta: float) -> Tensor:
    """The slope of the hinge loss: constant while the margin of a pair is below one, then 0.

    Equation: β·mean_{opponents} 1[m < 1], m = β·(Δ_better − Δ_worse), Δ = Σₜ log(π/ref): the derivative of
        −max(0, 1 − m) in Δ_better, divided by A.
    Args: beta, > 0.
    Returns: multiplier per token, 0 … β, equal over a rollout.
    Raises: ValueError for tokens without a reference.
    Source: Zhao et al. 2023 (SLiC-HF), arXiv 2305.10425; with a reference as in Liu et al. 2023, arXiv 2309.06657.
    """
    return _against_opponents(
        tokens, _log_ratio(tokens), lambda gap: torch.where(gap.isnan(), gap, beta * (beta * gap < 1).to(gap.dtype))
    )


@reaches(Reach.GROUP)
def mean_logistic_pairs(tokens: Tokens, *, beta: float, margin: float) -> Tensor:
    """The logistic loss on log-probabilities per token, with a margin to be kept and no reference.

    Equation: β/|y|·mean_{opponents} σ(γ − m), m = β·(Δ_better − Δ_worse), Δ = 1/|y| Σₜ log π: the derivative of
        log σ(m − γ) in each log π, divided by A.
    Args: beta, > 0; margin, γ ≥ 0.
    Returns: multiplier per token, 0 … β, equal over a rollout.
    Source: Meng et al. 2024 (SimPO), arXiv 2405.14734.
    """
    mean = tokens.per_sequence(tokens.logp) / tokens.lengths
    return _against_opponents(tokens, mean, lambda gap: beta * (margin - beta * gap).sigmoid()) / tokens.lengths


@reaches(Reach.GROUP)
def unanchored_pairs(tokens: Tokens, *, beta: float, alpha: float) -> Tensor:
    """The logistic loss on log-probabilities of whole answers without a reference, and the likelihood of the better.

    Equation: β·mean_{opponents} σ(−m) + α·1[A > 0], m = β·(Δ_better − Δ_worse), Δ = Σₜ log π: the derivative of
        log σ(m) + α·Δ_better in each log π, divided by A.
    Args: beta, > 0; alpha, α ≥ 0.
    Returns: multiplier per token, 0 … β + α, equal over a rollout.
    Source: Xu et al. 2024 (CPO), arXiv 2401.08417.
    """
    slopes = _against_opponents(tokens, tokens.per_sequence(tokens.logp), lambda gap: beta * _sigmoid(-beta * gap))
    return slopes + alpha * (tokens.advantage > 0).to(slopes.dtype)


@reaches(Reach.GROUP)
def odds_pairs(tokens: Tokens, *, weight: float) -> Tensor:
    """The logistic loss on the log-odds of an answer's mean likelihood, and the mean log-likelihood of the better.

    Equation: (λ·mean_{opponents} σ(−m)/(1 − P) + 1[A > 0])/|y|, m = log odds(P_better) − log odds(P_worse),
        odds(P) = P/(1 − P), log P = 1/|y| Σₜ log π: the derivative of λ log σ(m) + log P_better, divided by A.
    Args: weight, λ > 0.
    Returns: multiplier per token, ≥ 0, equal over a rollout.
    Source: Hong et al. 2024 (ORPO), arXiv 2403.07691, eq. 6.
    Differs: P is at most 1 − 1e-6, where the odds and their slope are still finite.
    """
    slopes = _slopes_of_odds(tokens, weight)
    return (slopes + (tokens.advantage > 0).to(slopes.dtype)) / tokens.lengths


@reaches(Reach.STEP)
def odds_pairs_by_token(tokens: Tokens, *, weight: float) -> Tensor:
    """As `odds_pairs`, with the log-likelihood of the better as a mean over all their tokens in the step.

    Equation: λ·mean_{opponents} σ(−m)/(1 − P)/|y| + 1[A > 0]/L, L = Σ A·|y| / Σ A over the better rollouts of the step.
    Args: weight, λ > 0.
    Returns: multiplier per token, ≥ 0, equal over a rollout.
    Source: Hong et al. 2024 (ORPO), arXiv 2403.07691, as released; TRL, ORPOTrainer.
    Differs: the mean is over the step, where released code takes that of each micro-batch.
    """
    better, (first, _) = tokens.advantage > 0, first_tokens(tokens)
    share = tokens.advantage[first].clamp(min=0)
    # From the smallest up, so that no order can change a bit of the sums.
    length = (share * tokens.lengths[first]).sort().values.sum() / share.sort().values.sum()
    slopes = _slopes_of_odds(tokens, weight)
    return slopes / tokens.lengths + torch.where(better, 1 / length, torch.zeros_like(slopes))


def _slopes_of_odds(tokens: Tokens, weight: float) -> Tensor:
    """[T] the derivative of λ log σ(m) in the log of a rollout's mean likelihood, divided by A."""
    mean = (tokens.per_sequence(tokens.logp) / tokens.lengths).clamp(max=-1e-6)
    rest = -mean.expm1()
    return _against_opponents(tokens, mean - rest.log(), lambda gap: weight * _sigmoid(-gap)) / rest


def prospect(tokens: Tokens, *, beta: float) -> Tensor:
    """The slope of a rollout's value, which saturates on either side of what the policy makes of all rollouts.

    Equation: 4·σ(x)·σ(−x), x = β·(Δ − z), Δ = Σₜ log(π/ref), z = max(0, mean Δ over the rollouts of the step that have
        tokens): the derivative of σ(x) in Δ, with z held still, over its largest value, β/4.
    Args: beta, > 0.
    Returns: multiplier per token, 0 … 1, equal over a rollout.
    Raises: ValueError for tokens without a reference.
    Source: Ethayarajh et al. 2024 (KTO), arXiv 2402.01306, eq. 8.
    Differs: there z is estimated from answers to other prompts; the mean Δ of the policy's own rollouts is unbiased.
    """
    whole, (first, _) = _log_ratio(tokens), first_tokens(tokens)
    apart = whole[first].sort().values  # From the smallest up, so that no order can change a bit of the sum.
    position = apart.sum() / max(len(apart), 1)
    certainty = _sigmoid(beta * (whole - position.clamp(min=0)))
    return 4 * certainty * (1 - certainty)


@reaches(Reach.GROUP)
def reference_likelihood(tokens: Tokens) -> Tensor:
    """Away from what the reference would say: the log-likelihood of its answers, as a penalty on one's own.

    Equation: −w/n, w = Πₜ ref/μ, the importance weight of a rollout, n the rollouts of its group that have tokens.
    Returns: coefficient per token, < 0, equal over a rollout; its mean gradient under a sum over the tokens of a
        group is −∇E_ref[log π], whatever policy sampled.
    Raises: ValueError for tokens without a reference.
    Source: Xie et al. 2024 (XPO), arXiv 2405.21046, the exploration bonus.
    Differs: there the answers are drawn from the reference; here the rollouts at hand stand for them, by their
        weight. The mean is the same, the spread grows with the distance between behavior and reference.
    """
    first, _ = first_tokens(tokens)
    count = torch.bincount(tokens.group[first])[tokens.group]
    weight = tokens.per_sequence(tokens.logp - tokens.behavior_logp - tokens.log_divergence)
    return -weight.clamp(-LIMIT, LIMIT).exp() / count


def _sigmoid(values: Tensor) -> Tensor:
    """σ, with the same bits wherever in a tensor a value stands: torch's own rounds the last few of them otherwise."""
    return 1 / (1 + (-values).exp())


def _log_ratio(tokens: Tokens) -> Tensor:
    """[T] log(policy/reference) of the whole rollout."""
    return tokens.per_sequence(tokens.log_divergence)


def first_tokens(tokens: Tokens) -> tuple[Tensor, Tensor]:
    """[S] a token of every rollout that has one, and [T] which of those rollouts each token belongs to."""
    there = torch.bincount(tokens.sequence) > 0
    owner = (there.cumsum(0) - 1)[tokens.sequence]
    first = owner.new_zeros(int(there.sum()))
    return first.index_copy_(0, owner, torch.arange(len(owner), device=owner.device)), owner


def _against_opponents(tokens: Tokens, score: Tensor, slope: Callable[[Tensor], Tensor]) -> Tensor:
    """[T] the mean slope of a rollout's pairs, from the score difference of the better and the worse."""
    first, owner = first_tokens(tokens)
    advantage, score = tokens.advantage[first], score[first]
    own, other = companions(tokens.group[first])
    opposed = advantage[own] * advantage[other] < 0
    own, other = own[opposed], other[opposed]
    slopes = advantage[other].abs() * slope(advantage[own].sign() * (score[own] - score[other]))
    total = ordered_sums(slopes, own, len(score))
    unmet = 1 - torch.zeros_like(score).index_add(0, own, advantage[other].abs())
    # A share is at least one over the size of its group; less than this is the rounding of a sum that is one.
    unmet = torch.where(unmet < 1e-5, torch.zeros_like(unmet), unmet)
    return (total + unmet * slope(advantage.sign() * score))[owner]


def ordered_sums(values: Tensor, owner: Tensor, count: int) -> Tensor:
    """[count] sums of values by their owner, from the smallest up, so that no order can change a bit of them."""
    order = values.argsort()
    order = order[owner[order].argsort(stable=True)]
    return values.new_zeros(count).index_add(0, owner[order], values[order])


def companions(group: Tensor) -> tuple[Tensor, Tensor]:
    """Every ordered pair of places with the same group, a place with itself included."""
    order, counts = group.argsort(stable=True), torch.bincount(group)
    sizes = counts[group]
    own = torch.arange(len(group), device=group.device).repeat_interleave(sizes)
    within = torch.arange(len(own), device=own.device) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    return own, order[(counts.cumsum(0) - counts)[group[own]] + within]
