"""Credit that differs from segment to segment, turns or slices of a budget, equal over the tokens of each.

Every function takes the rollouts of a whole step and the advantage of the row, and gives an advantage per token [T].
The advantage of the row (rewards [G, N] to [G, N]) is taken of each segment in turn, first among first. As in
`token_credit`, nothing is expected beyond the last token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from gnomon.objectives.credit import Advantage, Rollouts
from gnomon.objectives.token_credit import advantage_estimates, discount

__all__ = [
    "budget_credit",
    "discounted_turn_returns",
    "each",
    "history_centred",
    "returns_over_turns",
    "returns_where_reached",
    "rewards_where_reached",
    "standardised_turn_returns",
    "state_centred",
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
    returns = each(discount(segment_rewards(rollouts), gamma), advantage)
    return returns[rollouts.sequence, segment]


def returns_where_reached(rollouts: Rollouts, advantage: Advantage, *, gamma: float) -> Tensor:
    """What a rollout earns from each turn on, compared among the rollouts of the group that reach the turn.

    Equation: A_k = A(G_k over the rollouts with a turn k), on every token of turn k.
    Args: gamma, discount per turn, 0 … 1.
    Returns: [T], in units of reward; the fewer rollouts reach a turn, the less it counts.
    Raises: ValueError for rollouts without segments.
    """
    returns = discount(segment_rewards(rollouts), gamma)
    return _where_reached(rollouts, returns, advantage)[rollouts.sequence, _segment(rollouts)]


def rewards_where_reached(rollouts: Rollouts, advantage: Advantage, *, gamma: float) -> Tensor:
    """The reward of each turn, compared among the rollouts of the group that reach it, summed from each turn on.

    Equation: A_k = Σ_{l≥k} γ^{l−k} A(r_l over the rollouts with a turn l), on every token of turn k.
    Returns: [T], in units of reward. A rollout that goes on has more taken off, so it is paid less for going on.
    Raises: ValueError for rollouts without segments.
    """
    apart = _where_reached(rollouts, segment_rewards(rollouts), advantage)
    return discount(apart, gamma)[rollouts.sequence, _segment(rollouts)]


def returns_over_turns(rollouts: Rollouts, advantage: Advantage, *, gamma: float) -> Tensor:
    """What a rollout earns from each turn on, compared among all turns of the group.

    Equation: A_k = A(G_l over all turns l of all rollouts), on every token of turn k.
    Returns: [T], in units of reward. A rollout decides how many turns the mean has, so it biases it by about 1/N.
    Raises: ValueError for rollouts without segments.
    """
    returns = discount(segment_rewards(rollouts), gamma)
    spoken, credit = _has_tokens(rollouts, returns.shape[2]).reshape(returns.shape), torch.zeros_like(returns)
    for values, there, out in zip(returns, spoken, credit, strict=True):
        if there.any() and len(there) > 1:
            out[there] = advantage(values[there][None])[0]
    return credit.flatten(0, 1)[rollouts.sequence, _segment(rollouts)]


def _where_reached(rollouts: Rollouts, values: Tensor, advantage: Advantage) -> Tensor:
    """[G·N, M] the advantage of [G, N, M] values, turn by turn among the rollouts of a group that have it."""
    spoken, credit = _has_tokens(rollouts, values.shape[2]).reshape(values.shape), torch.zeros_like(values)
    for turn in range(values.shape[2]):
        for group, there in enumerate(spoken[:, :, turn]):
            if there.any():
                credit[group, there, turn] = advantage(values[group, there, turn][None])[0]
    return credit.flatten(0, 1)


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
    return advantage_estimates(rewards, values, gamma=gamma, lam=lam)[rollouts.sequence, _segment(rollouts)]


def turn_gae_returns(rollouts: Rollouts, advantage: Advantage, *, gamma: float, lam: float) -> Tensor:
    """What the critic should have expected as each turn began, on every token of the turn.

    Equation: R_t = A_t + V_t.
    Returns: [T], in units of reward.
    Raises: ValueError for rollouts without segments or values.
    """
    values, rewards = _turns(rollouts, advantage, gamma)
    returns = advantage_estimates(rewards, values, gamma=gamma, lam=lam) + values
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
    returns = each(discount(segment_rewards(rollouts), gamma), advantage)
    turns = returns[_has_tokens(rollouts, returns.shape[1])]
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
    recent_mean = (scores * recent).cumsum(1) / recent.cumsum(0)
    past_mean = torch.cat([torch.zeros_like(recent_mean[:, :1]), recent_mean[:, :-1]], dim=1)
    elapsed = torch.arange(budgets, dtype=scores.dtype) / budgets
    mixed = elapsed * (to_come - (1 - elapsed) * past_mean) + (1 - elapsed) * compared
    return mixed[rollouts.sequence, segment]


def segment_rewards(rollouts: Rollouts) -> Tensor:
    """[G, N, M] what each segment earns; nothing where a rollout ended before it.

    Without rewards of segments, the reward of the rollout arrives as its last one ends.
    Raises: ValueError for rollouts without segments.
    """
    segment, shape = _segment(rollouts), rollouts.rewards.shape
    last = torch.full((rollouts.rewards.numel(),), -1, dtype=torch.int64)
    last = last.scatter_reduce(0, rollouts.sequence, segment, "amax").reshape(*shape, 1)
    if rollouts.segment_rewards is not None:
        segments = torch.arange(rollouts.segment_rewards.shape[2])
        return torch.where(segments <= last, rollouts.segment_rewards, 0.0)
    segments = torch.arange(max(1, int(last.max()) + 1))
    return torch.where(segments == last, rollouts.rewards[..., None], 0.0)


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


def _has_tokens(rollouts: Rollouts, segments: int) -> Tensor:
    """[G·N, M] bool, which segments have tokens."""
    spoken = torch.zeros(rollouts.rewards.numel(), segments, dtype=torch.bool)
    spoken[rollouts.sequence, _segment(rollouts)] = True
    return spoken


def _turns(rollouts: Rollouts, advantage: Advantage, gamma: float) -> tuple[Tensor, Tensor]:
    """[G·N, M] the critic's word as each turn begins, and what the turn earns.

    A turn without a token is no action, and expected to bring what it brings.
    """
    if rollouts.values is None:
        raise ValueError("an advantage over a critic needs its values on every token")
    sequence, segment = rollouts.sequence, _segment(rollouts)
    rewards = each(segment_rewards(rollouts), advantage).to(rollouts.values.dtype)
    spoken, values = _has_tokens(rollouts, rewards.shape[1]), torch.zeros_like(rewards)
    first = torch.ones(len(segment), dtype=torch.bool)
    first[1:] = (sequence[1:] != sequence[:-1]) | (segment[1:] != segment[:-1])
    values[sequence[first], segment[first]] = rollouts.values[first]
    ahead = torch.zeros_like(values[:, 0])
    for turn in range(values.shape[1] - 1, -1, -1):
        values[:, turn] = torch.where(spoken[:, turn], values[:, turn], rewards[:, turn] + gamma * ahead)
        ahead = values[:, turn]
    return values, rewards


def state_centred(rollouts: Rollouts, advantage: Advantage, *, gamma: float, weight: float) -> Tensor:
    """The advantage of a rollout, and what each turn earns from there on less the mean of the turns in its state.

    Equation: A = A(Σ_k r_k) + ω·(G_t − mean G over the turns of the group that reply to the same observation),
        G_t = Σ_{k≥t} γ^{k−t} r_k; on every token of turn t.
    Args: gamma, discount per turn, 0 … 1; weight, ω ≥ 0.
    Returns: [T], in units of reward. A turn alone in its state has the advantage of its rollout only.
    Raises: ValueError for rollouts without segments or observations.
    Source: Feng et al. 2025 (GiGPO), arXiv 2505.10978, eq. 3–8.
    """
    turns, earned = _states(rollouts), segment_rewards(rollouts)
    alike = turns.alike(0)
    returns = turns.returns(discount(earned, gamma).flatten(0, 1))
    apart = returns - alike.mean(returns)
    return rollouts.spread(advantage(earned.sum(dim=2))) + weight * apart[turns.of_token]


def history_centred(rollouts: Rollouts, advantage: Advantage, *, gamma: float, history: int, alpha: float) -> Tensor:
    """What each turn earns from there on less the means of turns with the same past: a mean of differences to smaller
    and smaller groups, those that share more of the past counting more.

    Equation: A_t = Σ_h w_h·(G_t − mean_h G) / Σ_h w_h, w_h = (h + 2)^α, over h = 0 … H for which another turn of the
        group replies to the same last h + 1 observations; G_t = Σ_{k≥t} γ^{k−t} r_k. On every token of turn t.
    Args: gamma, discount per turn, 0 … 1; history, H ≥ 0; alpha, α ≥ 0.
    Returns: [T], in units of reward; zero for a turn alone in its state.
    Raises: ValueError for rollouts without segments or observations.
    Source: He et al. 2026 (HGPO), arXiv 2602.22817; langfengQ/verl-agent, recipe/hgpo.
    Differs: a difference of exactly zero counts with its weight; released code leaves it out.
    """
    turns = _states(rollouts)
    returns = turns.returns(each(discount(segment_rewards(rollouts), gamma), advantage))
    total, weights = torch.zeros_like(returns), torch.zeros_like(returns)
    for depth in range(history + 1):
        alike = turns.alike(depth)
        weight = (depth + 2) ** alpha * alike.several.to(returns.dtype)
        total += weight * (returns - alike.mean(returns))
        weights += weight
    return torch.where(weights > 0, total / weights, 0.0)[turns.of_token]


COMPARED: dict[str, Callable[..., Tensor]] = {
    "rollouts": turn_returns, "reached": returns_where_reached, "turns": returns_over_turns,
    "rewards": rewards_where_reached,
}  # fmt: skip
"""What a turn is compared with, by the value of the option `compared`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Alike:
    """Turns in classes."""

    of_turn: Tensor
    """[K] int64, the class of every turn; a class of its own for one that has no such past."""

    @property
    def several(self) -> Tensor:
        """[K] bool, whether another turn is in the class."""
        return torch.bincount(self.of_turn)[self.of_turn] > 1

    def mean(self, values: Tensor) -> Tensor:
        """[K] the mean of [K] values over the class of each turn, exactly the value where all are equal."""
        count = torch.bincount(self.of_turn)
        least = torch.full((len(count),), torch.inf, dtype=values.dtype)
        least = least.scatter_reduce(0, self.of_turn, values, "amin")[self.of_turn]
        above = torch.zeros(len(count), dtype=values.dtype).index_add(0, self.of_turn, values - least)
        return least + (above / count)[self.of_turn]


@dataclass(frozen=True, slots=True, kw_only=True)
class _States:
    """The K turns of a step that have tokens."""

    of_token: Tensor
    """[T] the turn of every token."""
    sequence: Tensor
    """[K] its rollout."""
    segment: Tensor
    """[K] which of the rollout's turns it is."""
    group: Tensor
    """[K]"""
    observation: Tensor
    """[K]"""

    def returns(self, table: Tensor) -> Tensor:
        """[K] of each turn. Args: table: [G·N, M] what rollouts earn from each segment on."""
        return table[self.sequence, self.segment]

    def alike(self, history: int) -> _Alike:
        """Turns of a group that reply to the same observation after the same `history` observations before it."""
        keys, has_history = [self.group, self.observation], torch.ones_like(self.group, dtype=torch.bool)
        row = torch.arange(len(self.group))
        for back in range(1, history + 1):
            before = row - back
            has_history &= (before >= 0) & (self.sequence[before.clamp(min=0)] == self.sequence)
            keys.append(self.observation[before.clamp(min=0)])
        keys.append(torch.where(has_history, -1, row))
        return _Alike(of_turn=torch.unique(torch.stack(keys, dim=1), dim=0, return_inverse=True)[1])


def _states(rollouts: Rollouts) -> _States:
    if rollouts.segment is None or rollouts.observation is None:
        raise ValueError("credit over states needs the segment and the observation of every token")
    sequence = rollouts.sequence
    pairs = torch.stack([sequence, rollouts.segment], dim=1)
    turns, of_token = torch.unique(pairs, dim=0, return_inverse=True)
    observation = torch.zeros(len(turns), dtype=torch.int64)
    observation[of_token] = rollouts.observation
    of_turn, segment = turns.unbind(1)
    return _States(
        of_token=of_token,
        sequence=of_turn,
        segment=segment,
        group=of_turn // rollouts.rewards.shape[1],
        observation=observation,
    )
