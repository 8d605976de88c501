"""Credit that compares turns which reply to the same observation, of whichever rollouts of the group."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gnomon.objectives.credit import Rollouts
from gnomon.objectives.row import Advantage
from gnomon.objectives.token_credit import discounted
from gnomon.objectives.turn_credit import each, paid

__all__ = ["history_centred", "state_centred"]


def state_centred(rollouts: Rollouts, advantage: Advantage, *, gamma: float, weight: float) -> Tensor:
    """The advantage of a rollout, and what each turn earns from there on less the mean of the turns in its state.

    Equation: A = A(Σ_k r_k) + ω·(G_t − mean G over the turns of the group that reply to the same observation),
        G_t = Σ_{k≥t} γ^{k−t} r_k; on every token of turn t.
    Args: gamma, discount per turn, 0 … 1; weight, ω ≥ 0.
    Returns: [T], in units of reward. A turn alone in its state has the advantage of its rollout only.
    Raises: ValueError for rollouts without segments or observations.
    Source: Feng et al. 2025 (GiGPO), arXiv 2505.10978, eq. 3–8.
    """
    turns, earned = _turns(rollouts), paid(rollouts)
    alike = turns.alike(0)
    returns = turns.returns(discounted(earned, gamma).flatten(0, 1))
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
    turns = _turns(rollouts)
    returns = turns.returns(each(discounted(paid(rollouts), gamma), advantage))
    total, weights = torch.zeros_like(returns), torch.zeros_like(returns)
    for depth in range(history + 1):
        alike = turns.alike(depth)
        weight = (depth + 2) ** alpha * alike.several.to(returns.dtype)
        total += weight * (returns - alike.mean(returns))
        weights += weight
    return torch.where(weights > 0, total / weights, 0.0)[turns.of_token]


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
class _Turns:
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
        keys, known = [self.group, self.observation], torch.ones_like(self.group, dtype=torch.bool)
        place = torch.arange(len(self.group))
        for back in range(1, history + 1):
            before = place - back
            known &= (before >= 0) & (self.sequence[before.clamp(min=0)] == self.sequence)
            keys.append(self.observation[before.clamp(min=0)])
        keys.append(torch.where(known, -1, place))
        return _Alike(of_turn=torch.unique(torch.stack(keys, dim=1), dim=0, return_inverse=True)[1])


def _turns(rollouts: Rollouts) -> _Turns:
    if rollouts.segment is None or rollouts.observation is None:
        raise ValueError("credit over states needs the segment and the observation of every token")
    sequence = rollouts.sequence
    place = torch.stack([sequence, rollouts.segment], dim=1)
    turns, of_token = torch.unique(place, dim=0, return_inverse=True)
    observation = torch.zeros(len(turns), dtype=torch.int64)
    observation[of_token] = rollouts.observation
    of_turn, segment = turns.unbind(1)
    return _Turns(
        of_token=of_token,
        sequence=of_turn,
        segment=segment,
        group=of_turn // rollouts.rewards.shape[1],
        observation=observation,
    )
