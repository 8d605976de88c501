"""How credit reaches tokens: the rollouts of a whole step in, [T] advantages out; and what is added to a reward before.

T counts the trainable tokens of the step, laid end to end, group after group and rollout after rollout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum

import torch
from torch import Tensor

__all__ = ["Advantage", "Credit", "Ended", "Rollouts", "across_players", "less_overlong", "soft_overlong", "terminal"]


OF_ROLLOUTS = (
    "lengths", "longest", "baseline", "greedy", "task", "player", "finished", "ended", "beyond", "demonstrated",
)  # fmt: skip
"""Fields of `Rollouts` with a number of every rollout, beside its reward and its answer."""
SEVERAL_OF_ROLLOUTS = ("segment_rewards", "budget_scores", "parts", "part_weights", "visits")
"""Fields with several numbers of every rollout."""
OF_TOKENS = ("segment", "observation", "values", "logp", "reference_logp", "entropy", "collision")
"""Fields with a number of every token."""


class Ended(IntEnum):
    """What ended a rollout."""

    ITSELF = 0
    """The environment, after a reply that ended by itself."""
    REPLY = 1
    """The token limit of its last reply: the policy would have written more."""
    BETWEEN = 2
    """A limit between two turns, of turns, tokens of a conversation or time: the environment would have gone on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollouts:
    """What credit may look at: G groups of N rollouts, as planned, those without a single token included."""

    rewards: Tensor
    """[G, N] floating-point."""
    lengths: Tensor
    """[G, N] int64, trainable tokens of each rollout."""
    longest: Tensor | None = None
    """[G, N] int64, tokens of the longest reply of each rollout; one that was cut off counts as its limit. None: every
    rollout is one reply."""
    answers: Tensor | None = None
    """[G, N] int64; equal numbers in a group are equal answers."""
    baseline: Tensor | None = None
    """[G, N] what the run's past expects of each rollout: it depends on earlier steps only."""
    visits: Tensor | None = None
    """[G, N, 3] earlier visits of the rollout's task in the run, and the mean and variance of rewards over them; zeros
    at the first. None: this is the first."""
    greedy: Tensor | None = None
    """[G, N] the reward of a rollout of temperature 0, which replied to the same task for the same player."""
    task: Tensor | None = None
    """[G, N] int64, the place of a rollout's task among those of the environment: the same in every step."""
    player: Tensor | None = None
    """[G, N] int64, who in a game of several the rollout is of, from 0. None: player 0 has them all."""
    finished: Tensor | None = None
    """[G, N] bool, whether a rollout ended before a length limit ended it. None: all did."""
    ended: Tensor | None = None
    """[G, N] int64, what ended a rollout, by `Ended`. None: all ended by themselves."""
    beyond: Tensor | None = None
    """[G, N] what a critic expects after the last token of a rollout that a limit ended; of others it plays no part."""
    demonstrated: Tensor | None = None
    """[G, N] bool, whether a rollout was given rather than sampled from the policy."""
    segment: Tensor | None = None
    """[T] int64, the part of its rollout that a token stands in, from 0: a turn, a slice of a budget, an answer."""
    observation: Tensor | None = None
    """[T] int64; equal numbers are turns that reply to the same observation."""
    segment_rewards: Tensor | None = None
    """[G, N, M] the reward that arrives as each segment ends."""
    budget_scores: Tensor | None = None
    """[G, N, M] the score of the answer at every token budget, the smallest first; segment j of a rollout, of all its
    tokens between two budgets, ends at budget j."""
    parts: Tensor | None = None
    """[G, N, R] the named parts of each reward, unweighted."""
    part_weights: Tensor | None = None
    """[G, N, R] what each part counts in its reward."""
    values: Tensor | None = None
    """[T] what a critic expects of the rest of the rollout, before each token."""
    logp: Tensor | None = None
    """[T] log-probability under the policy, as the step begins."""
    reference_logp: Tensor | None = None
    """[T] log-probability under the reference of a KL penalty."""
    entropy: Tensor | None = None
    """[T] entropy of the policy's next-token distribution before each token, as the step begins, in nats."""
    collision: Tensor | None = None
    """[T] Σ_v π(v)² of that distribution: the chance that two draws from it are the same token."""

    def __post_init__(self) -> None:
        shape = self.rewards.shape
        if self.rewards.dim() != 2 or not self.rewards.is_floating_point():
            raise ValueError(
                f"rewards are a floating-point [groups, N] table, not {list(shape)} of {self.rewards.dtype}"
            )
        for name in (*OF_ROLLOUTS, "answers"):
            values = getattr(self, name)
            if values is not None and values.shape != shape:
                raise ValueError(f"{name} has shape {list(values.shape)}, rewards {list(shape)}")
        for name in SEVERAL_OF_ROLLOUTS:
            values = getattr(self, name)
            if values is not None and (values.dim() != 3 or values.shape[:2] != shape):
                raise ValueError(f"{name} has shape {list(values.shape)}, rewards {list(shape)}")
        total = int(self.lengths.sum())
        for name in OF_TOKENS:
            values = getattr(self, name)
            if values is not None and values.shape != (total,):
                raise ValueError(f"{name} has shape {list(values.shape)}, but the rollouts have {total} tokens")

    @property
    def players(self) -> Tensor:
        """[G, N] int64, the player of every rollout."""
        return torch.zeros_like(self.lengths) if self.player is None else self.player

    @property
    def sequence(self) -> Tensor:
        """[T] int64, index of the rollout in the whole step."""
        return torch.arange(self.rewards.numel()).repeat_interleave(self.lengths.flatten())

    def spread(self, values: Tensor) -> Tensor:
        """[T] a value per rollout [G, N] on each of its tokens."""
        return values.flatten().repeat_interleave(self.lengths.flatten())


Advantage = Callable[[Tensor], Tensor]
"""Rewards [groups, N] to advantages [groups, N]."""
Credit = Callable[[Rollouts, Advantage], Tensor]
"""Rollouts, and the advantage of the row, to an advantage per token [T]."""


def terminal(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """The advantage of a rollout on each of its tokens: the reward comes at the end and nothing discounts it.

    Equation: Aₜ = A.
    Returns: [T].
    """
    return rollouts.spread(advantage(rollouts.rewards))


def across_players(rollouts: Rollouts) -> Rollouts:
    """The same rollouts, those of one task in all its players as one group: a player is compared with the others too.

    Rollouts stay as they are if the groups do not alternate between all players: a policy may learn as one player.
    """
    count = int(rollouts.players.max()) + 1
    turns = torch.arange(len(rollouts.players))[:, None] % count
    if count == 1 or len(turns) % count or not bool((rollouts.players == turns).all()):
        return rollouts
    shape = (len(turns) // count, -1)
    names = ("rewards", *OF_ROLLOUTS)
    merged = {name: table.reshape(shape) for name in names if (table := getattr(rollouts, name)) is not None}
    if rollouts.answers is not None:  # Equal numbers are equal answers within a player only.
        merged["answers"] = (rollouts.answers * count + rollouts.players).reshape(shape)
    for name in SEVERAL_OF_ROLLOUTS:
        if (table := getattr(rollouts, name)) is not None:
            merged[name] = table.reshape(*shape, table.shape[2])
    return replace(rollouts, **merged)


def soft_overlong(lengths: Tensor, *, max_tokens: int, buffer: int) -> Tensor:
    """A penalty that grows over the last tokens before the length limit of a reply.

    Equation: 0 for L ≤ L_max − L_c, (L_max − L_c − L)/L_c from there to L_max, −1 beyond.
    Args: lengths, tokens per reply; max_tokens, L_max, the limit of a reply; buffer, L_c, 1 … L_max.
    Returns: float64, what to add to a reward for each length, −1 … 0.
    Raises: ValueError for a buffer out of range.
    Source: Yu et al. 2025 (DAPO), arXiv 2503.14476 (L_max 20480, L_c 4096).
    """
    if not 1 <= buffer <= max_tokens:
        raise ValueError(f"the buffer must lie in 1 … {max_tokens}, not at {buffer}")
    return ((max_tokens - buffer - lengths.to(torch.float64)) / buffer).clamp(-1.0, 0.0)


def less_overlong(credit: Credit, *, max_tokens: int, buffer: int) -> Credit:
    """The same credit of rewards from which the `soft_overlong` of each rollout's longest reply was taken.

    A rollout of several turns has a limit for each reply. Its longest reply is the one nearest to being cut off, so it
    alone counts: the penalty is −1 … 0 for any number of turns, and many short replies cost nothing.

    Args: max_tokens, buffer: as there.
    Raises: ValueError for a buffer out of range; the credit, for rollouts whose segments have rewards of their own.
    """
    soft_overlong(torch.zeros(0), max_tokens=max_tokens, buffer=buffer)

    def shape(rollouts: Rollouts, advantage: Advantage) -> Tensor:
        if rollouts.segment_rewards is not None:
            raise ValueError("a rollout that is paid part by part has no one reward to take from")
        longest = rollouts.lengths if rollouts.longest is None else rollouts.longest
        late = soft_overlong(longest, max_tokens=max_tokens, buffer=buffer)
        return credit(replace(rollouts, rewards=rollouts.rewards + late.to(rollouts.rewards.dtype)), advantage)

    return shape
