"""What credit carries from step to step: running means of rewards, one for each player."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from gnomon.objectives.credit import Rollouts
from gnomon.objectives.group_credit import running_mean

__all__ = ["CreditState", "Recall", "mean_per_rollout", "mean_per_step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditState:
    """What the steps so far have left behind. It is passed in and returned, and saved in checkpoints."""

    means: Mapping[int, float] = field(default_factory=dict)
    """Running mean of rewards by player; a player without one has 0."""


Recall = Callable[[Rollouts, CreditState], tuple[Tensor, CreditState]]
"""Rollouts of a step to what the past expects of each, [G, N], and to the state with this step in it."""


def mean_per_step(rollouts: Rollouts, state: CreditState) -> tuple[Tensor, CreditState]:
    """The running mean of each player moves once per step, by the player's mean reward in it.

    Equation: b of every rollout of a player is b_p; then b_p ← 0.95·b_p + 0.05·mean r over the player's rollouts.
    Returns: [G, N] in units of reward, and the state after the step.
    """
    rewards, past, means = rollouts.rewards, torch.zeros_like(rollouts.rewards), dict(state.means)
    for player in sorted(set(rollouts.players.flatten().tolist())):
        own, before = rollouts.players == player, means.get(player, 0.0)
        past[own] = before
        means[player] = running_mean(before, float(rewards[own].mean()))
    return past, CreditState(means=means)


def mean_per_rollout(rollouts: Rollouts, state: CreditState) -> tuple[Tensor, CreditState]:
    """The running mean of each player moves with each of the player's rewards, in the order of the rollouts.

    Equation: for each rollout in turn, b = b_p, then b_p ← 0.95·b_p + 0.05·r.
    Returns: [G, N] in units of reward, and the state after the step. What a rollout is compared with depends on
        rollouts before it alone, never on its own reward.
    Source: Liu et al. 2025 (SPIRAL), arXiv 2506.24119, released code.
    """
    past, means = [], dict(state.means)
    for player, reward in zip(rollouts.players.flatten().tolist(), rollouts.rewards.flatten().tolist(), strict=True):
        before = means.get(player, 0.0)
        past.append(before)
        means[player] = running_mean(before, reward)
    found = torch.tensor(past, dtype=rollouts.rewards.dtype).reshape(rollouts.rewards.shape)
    return found, CreditState(means=means)
