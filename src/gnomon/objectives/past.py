"""What credit carries from step to step: running means of rewards by player, values and visits of tasks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from gnomon.objectives.credit import Rollouts

__all__ = [
    "CreditState",
    "Recall",
    "mean_per_rollout",
    "mean_per_step",
    "optimal_value_per_task",
    "running_mean",
    "visit_statistics",
    "visits_per_task",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditState:
    """What the steps so far have left behind. It is passed in and returned, and saved in checkpoints."""

    means: Mapping[int, float] = field(default_factory=dict)
    """Running mean of rewards by player; a player without one has 0."""
    values: Mapping[tuple[int, int], float] = field(default_factory=dict)
    """What the best policy near the reference would earn, by task and player."""
    visits: Mapping[tuple[int, int], tuple[int, float, float]] = field(default_factory=dict)
    """Number of visits, and mean and variance of the rewards over them, by task and player."""
    steps: int = 0
    """Number of batches so far that taught the critic alone."""

    def tensors(self) -> dict[str, Tensor]:
        """As a checkpoint has it."""
        return {
            "players": torch.tensor([*self.means], dtype=torch.int64),
            "means": torch.tensor([*self.means.values()], dtype=torch.float64),
            "steps": torch.tensor(self.steps),
            "tasks": torch.tensor([*self.values], dtype=torch.int64).reshape(-1, 2),
            "values": torch.tensor([*self.values.values()], dtype=torch.float64),
            "visited": torch.tensor([*self.visits], dtype=torch.int64).reshape(-1, 2),
            "visits": torch.tensor([*self.visits.values()], dtype=torch.float64).reshape(-1, 3),
        }

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> CreditState:
        """From the tensors of a checkpoint."""
        lists: dict[str, Any] = {name: tensor.tolist() for name, tensor in tensors.items()}
        visits = ((int(count), mean, variance) for count, mean, variance in lists["visits"])
        return cls(
            means=dict(zip(lists["players"], lists["means"], strict=True)),
            values=dict(zip(map(tuple, lists["tasks"]), lists["values"], strict=True)),
            visits=dict(zip(map(tuple, lists["visited"]), visits, strict=True)),
            steps=lists["steps"],
        )


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
    return past, replace(state, means=means)


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
    baselines = torch.tensor(past, dtype=rollouts.rewards.dtype).reshape(rollouts.rewards.shape)
    return baselines, replace(state, means=means)


def optimal_value_per_task(rollouts: Rollouts, state: CreditState, *, temperature: float) -> tuple[Tensor, CreditState]:
    """What the best policy near the one that first visited a task would earn on it.

    Equation: V* = β₁·log mean e^{r/β₁} over the rollouts of a player in the first step that has the task; in that step
        itself over the other rollouts of the group, and 0 where there is none.
    Args: temperature, β₁ > 0, in units of reward.
    Returns: [G, N] in units of reward, never from a rollout's own reward, and the state with the tasks of this step.
    Raises: ValueError for rollouts whose tasks are not known.
    Source: Brantley et al. 2025 (A*-PO), arXiv 2505.20686.
    """
    if rollouts.task is None:
        raise ValueError("a value for each task needs to know which task a rollout is of")
    past, values = torch.zeros_like(rollouts.rewards), dict(state.values)
    for group, rewards in enumerate(rollouts.rewards.tolist()):
        key = int(rollouts.task[group, 0]), int(rollouts.players[group, 0])
        if key in state.values:
            past[group] = state.values[key]
            continue
        others = [[*rewards[:i], *rewards[i + 1 :]] for i in range(len(rewards))]
        past[group] = torch.tensor([_soft_best(rest, temperature) for rest in others], dtype=past.dtype)
        values[key] = _soft_best(rewards, temperature)
    return past, replace(state, values=values)


def visits_per_task(rollouts: Rollouts, state: CreditState) -> tuple[Tensor, CreditState]:
    """The earlier visits of every task, and the state with this one.

    Returns: [G, N, 3], as `Rollouts.visits` has it, and the state. A task that is in several groups of a step is
        visited by one after the other, in their order.
    Raises: ValueError for rollouts whose tasks are not known.
    """
    if rollouts.task is None:
        raise ValueError("the visits of a task need to know which task a rollout is of")
    visits, earlier_visits = dict(state.visits), []
    for group, size in enumerate(map(len, rollouts.rewards)):
        key = int(rollouts.task[group, 0]), int(rollouts.players[group, 0])
        earlier = torch.tensor(visits.get(key, (0, 0.0, 0.0)), dtype=torch.float64).expand(1, size, 3)
        earlier_visits.append(earlier)
        alone = Rollouts(rewards=rollouts.rewards[group : group + 1], lengths=rollouts.lengths[group : group + 1])
        count, mean, variance = visit_statistics(replace(alone, visits=earlier))[0, 0].tolist()
        visits[key] = int(count), mean, variance
    return torch.cat(earlier_visits), replace(state, visits=visits)


def running_mean(before: float, reward: float, rate: float = 0.95) -> float:
    """A mean that forgets: what `past_centred` takes off, one for each game and role.

    Take the baseline of a step off its rewards first, and take its rewards in afterwards: a baseline that has
    seen the reward shrinks the gradient.

    Equation: b ← rate·b + (1 − rate)·r, from b = 0.
    Args: before, the mean so far; reward, the next one; rate, share of the past that is kept, 0 ≤ rate < 1.
    Raises: ValueError for a rate out of range.
    Source: Liu et al. 2025 (SPIRAL), arXiv 2506.24119 (rate 0.95).
    """
    if not 0 <= rate < 1:
        raise ValueError(f"rate must lie in [0, 1), not at {rate!r}")
    return rate * before + (1 - rate) * reward


def visit_statistics(rollouts: Rollouts) -> Tensor:
    """[G, N, 3] visits of the task of each rollout with this one, and the mean and variance of rewards over them.

    Equation: of a task with n visits: m ← ((n−1)·m + r̄)/n, v ← ((n−1)·v + s² + (n−1)/n·(r̄ − m)²)/n, with r̄ and s² the
        mean and sample variance of the group and m and v those of the visits before; at the first r̄ and s².
    Returns: of rewards in units of reward, squared for the variance.
    """
    rewards, earlier = rollouts.rewards.double(), rollouts.visits
    size = rewards.shape[1]
    least = rewards.amin(dim=1, keepdim=True)
    mean = least + (rewards - least).mean(dim=1, keepdim=True)  # Exactly the reward where all are equal.
    variance = (rewards - mean).square().sum(dim=1, keepdim=True) / max(size - 1, 1)
    before = torch.zeros(*rewards.shape, 3, dtype=rewards.dtype) if earlier is None else earlier.double()
    past, old_mean, old_variance = before.unbind(2)
    count = past + 1
    apart = past / count * (mean - old_mean).square()
    new = [count, old_mean + (mean - old_mean) / count, (past * old_variance + variance + apart) / count]
    return torch.stack([value.expand(rewards.shape) for value in new], dim=2)


def _soft_best(rewards: Sequence[float], temperature: float) -> float:
    if not rewards:
        return 0.0
    best = max(rewards)
    return best + temperature * math.log(math.fsum(math.exp((r - best) / temperature) for r in rewards) / len(rewards))
