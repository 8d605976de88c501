"""Credit that differs from segment to segment, turns or slices of a budget, equal over the tokens of each.

Every function takes the rollouts of a whole step and the advantage of the row, and gives an advantage per token [T].
The advantage of the row (rewards [G, N] to [G, N]) is taken of each segment in turn, first among first. As in
`token_credit`, nothing is expected beyond the last token.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnomon.objectives.credit import Rollouts
from gnomon.objectives.row import Advantage
from gnomon.objectives.token_credit import discounted, smoothed

__all__ = [
    "budget_credit",
    "discounted_turn_returns",
    "each",
    "standardised_turn_returns",
    "turn_gae",
    "turn_gae_returns",
    "turn_returns",
]


def turn_returns(rollouts: Rollouts, advantage: Advantage, *, gamma: float) -> Tensor:
    """What a rollout earns from each turn on, discounted to that turn.

    Equation: G_t = Σ_{k≥t} γ^{k−t} r_k, on every token of turn t.
    Args: gamma, discount per turn, 0 … 1.
    Returns: [T], in units of reward.
    Raises: ValueError for rollouts without segments.
    Differs: summed over tokens this is, for γ < 1, the gradient of no discounted return: late turns weigh as much
        as early ones.
    """
    segment = _segment(rollouts)
    returns = each(discounted(paid(rollouts), gamma), advantage)
    return returns[rollouts.sequence, segment]


def discounted_turn_returns(rollouts: Rollouts, advantage: Advantage, *, gamma: float) -> Tensor:
    """What a rollout earns from each turn on, discounted to its beginning.

    Equation: γᵗ G_t = Σ_{k≥t} γᵏ r_k, on every token of turn t.
    Returns: [T]; summed over tokens its mean gradient is that of J_γ = E[Σ_k γᵏ r_k].
    Raises: ValueError for rollouts without segments.
    Source: Nota & Thomas 2020, arXiv 1906.07073.
    """
    returns = turn_returns(rollouts, advantage, gamma=gamma)
    return gamma ** _segment(rollouts).to(returns.dtype) * returns


def turn_gae(rollouts: Rollouts, advantage: Advantage, *, gamma: float, lam: float) -> Tensor:
    """Generalised advantage estimates over turns; the critic is read at the first token of each.

    Equation: A_t = Σ_{l≥0} (γλ)ˡ δ_{t+l}, δ_t = r_t + γV_{t+1} − V_t over turns, on every token of turn t.
    Args: gamma, discount per turn, 0 … 1; lam, λ, 0 … 1.
    Returns: [T], in units of reward. What the environment says between turns is no token, so it is stepped over.
    Raises: ValueError for rollouts without segments or values.
    Source: Schulman et al. 2016, arXiv 1506.02438, with turns for steps.
    """
    values, rewards = _turns(rollouts, advantage, gamma)
    return smoothed(rewards, values, gamma=gamma, lam=lam)[rollouts.sequence, _segment(rollouts)]


def turn_gae_returns(rollouts: Rollouts, advantage: Advantage, *, gamma: float, lam: float) -> Tensor:
    """What the critic should have expected as each turn began, on every token of the turn.

    Equation: R_t = A_t + V_t.
    Returns: [T], in units of reward.
    Raises: ValueError for rollouts without segments or values.
    """
    values, rewards = _turns(rollouts, advantage, gamma)
    returns = smoothed(rewards, values, gamma=gamma, lam=lam) + values
    return returns[rollouts.sequence, _segment(rollouts)]


def standardised_turn_returns(rollouts: Rollouts, advantage: Advantage, *, gamma: float, epsilon: float) -> Tensor:
    """`turn_returns` in standard deviations from their mean, over every turn of the step.

    Equation: A = (G − Ḡ)/(σ + ε), σ² = mean (G − Ḡ)², one G per turn whatever its tokens.
    Args: gamma, discount per turn, 0 … 1; epsilon, added to the deviation, ≥ 0, in units of reward.
    Returns: [T]; exactly zero where all turns earn the same.
    Raises: ValueError for rollouts without segments.
    Source: GEM 2025 (return batch normalisation), arXiv 2510.01051.
    """
    sequence, segment = rollouts.sequence, _segment(rollouts)
    returns = each(discounted(paid(rollouts), gamma), advantage)
    turns = returns[_spoken(rollouts, returns.shape[1])]
    if not len(turns) or bool((turns == turns[0]).all()):
        return torch.zeros(len(segment), dtype=returns.dtype)
    deviation = (turns - turns.mean()).square().mean().sqrt()
    return ((returns - turns.mean()) / (deviation + epsilon))[sequence, segment]


def budget_credit(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """What the budgets still to come will score, less a mix of the rollout's own past scores and of the others'.

    A segment is what is written between two budgets; its reward is the score of the answer at the budget that ends
    it. All budgets are equally likely.
    Equation: Aⱼ = (j/m)·(Rⱼ − V1ⱼ) + ((m−j)/m)·A(Rⱼ), Rⱼ = Σ_{k≥j} r_k/m, V1ⱼ = (m−j)/m · Σ_{k<j} 2ᵏ r_k / Σ_{k<j} 2ᵏ,
        on every token of segment j = 0 … m−1; A is the advantage of the row, of Rⱼ among its group.
    Returns: [T], in units of reward; V1ⱼ is known before segment j begins, so it biases nothing.
    Raises: ValueError for rollouts without segments or their rewards.
    Source: Qi et al. 2025 (AnytimeReasoner, BRPO), arXiv 2505.13438.
    """
    scores = rollouts.segment_rewards
    if scores is None:
        raise ValueError("credit over budgets needs segment_rewards: a score at every budget")
    segment, scores = _segment(rollouts), scores.flatten(0, 1)
    budgets = scores.shape[1]
    to_come = scores.flip(1).cumsum(1).flip(1) / budgets
    compared = each(to_come.reshape(*rollouts.rewards.shape, budgets), advantage)
    recent = 2.0 ** torch.arange(budgets, dtype=scores.dtype)
    known = (scores * recent).cumsum(1) / recent.cumsum(0)
    known = torch.cat([torch.zeros_like(known[:, :1]), known[:, :-1]], dim=1)
    passed = torch.arange(budgets, dtype=scores.dtype) / budgets
    mixed = passed * (to_come - (1 - passed) * known) + (1 - passed) * compared
    return mixed[rollouts.sequence, segment]


def paid(rollouts: Rollouts) -> Tensor:
    """[G, N, M] what each segment earns; nothing where a rollout ended before it.

    Without rewards of segments, the reward of the rollout arrives as its last one ends.
    Raises: ValueError for rollouts without segments.
    """
    segment, shape = _segment(rollouts), rollouts.rewards.shape
    last = torch.full((rollouts.rewards.numel(),), -1, dtype=torch.int64)
    last = last.scatter_reduce(0, rollouts.sequence, segment, "amax").reshape(*shape, 1)
    if rollouts.segment_rewards is not None:
        place = torch.arange(rollouts.segment_rewards.shape[2])
        return torch.where(place <= last, rollouts.segment_rewards, 0.0)
    place = torch.arange(max(1, int(last.max()) + 1))
    return torch.where(place == last, rollouts.rewards[..., None], 0.0)


def _segment(rollouts: Rollouts) -> Tensor:
    segment, rewards = rollouts.segment, rollouts.segment_rewards
    if segment is None:
        raise ValueError("credit over turns needs the segment of every token")
    if rewards is not None and len(segment) and int(segment.max()) >= rewards.shape[2]:
        raise ValueError(f"segment {int(segment.max())} has no reward: there are {rewards.shape[2]} to a rollout")
    return segment


def each(values: Tensor, advantage: Advantage) -> Tensor:
    """[G·N, M] the advantage of every segment among its like in the group, of values [G, N, M]."""
    return torch.stack([advantage(column) for column in values.unbind(2)], dim=2).flatten(0, 1)


def _spoken(rollouts: Rollouts, segments: int) -> Tensor:
    """[G·N, M] bool, which segments have tokens."""
    found = torch.zeros(rollouts.rewards.numel(), segments, dtype=torch.bool)
    found[rollouts.sequence, _segment(rollouts)] = True
    return found


def _turns(rollouts: Rollouts, advantage: Advantage, gamma: float) -> tuple[Tensor, Tensor]:
    """[G·N, M] the critic's word as each turn begins, and what the turn earns.

    A turn without a token is no action, and expected to bring what it brings.
    """
    if rollouts.values is None:
        raise ValueError("an advantage over a critic needs its values on every token")
    sequence, segment = rollouts.sequence, _segment(rollouts)
    rewards = each(paid(rollouts), advantage).to(rollouts.values.dtype)
    spoken, values = _spoken(rollouts, rewards.shape[1]), torch.zeros_like(rewards)
    first = torch.ones(len(segment), dtype=torch.bool)
    first[1:] = (sequence[1:] != sequence[:-1]) | (segment[1:] != segment[:-1])
    values[sequence[first], segment[first]] = rollouts.values[first]
    ahead = torch.zeros_like(values[:, 0])
    for turn in range(values.shape[1] - 1, -1, -1):
        values[:, turn] = torch.where(spoken[:, turn], values[:, turn], rewards[:, turn] + gamma * ahead)
        ahead = values[:, turn]
    return values, rewards
