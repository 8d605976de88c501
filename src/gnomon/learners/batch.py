"""Groups to the rows a learner trains on, with the sizes of the whole step known before the first backward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from gnomon.errors import ConfigError
from gnomon.objectives import Denominators, Objective
from gnomon.types import Group, Sampling

__all__ = ["Batch", "Row", "pack"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One completion with its credit."""

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    behavior_logp: tuple[float, ...]
    """Of every token, as the engine reported it."""
    advantage: float
    sequence: int
    """Index of its rollout in the step."""
    group: int
    """Index of its group in the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One optimiser step: rows, and the denominators of all that was planned for it."""

    rows: tuple[Row, ...]
    denominators: Denominators
    temperature: float
    """At which the rows were sampled; log-probabilities are of that distribution."""
    exact: bool
    """Whether the sampler's log-probabilities must equal the learner's in every bit."""

    @property
    def advantages(self) -> list[float]:
        """Of every rollout of the step, in order."""
        return list({row.sequence: row.advantage for row in self.rows}.values())

    def micro_batches(self, rows: Sequence[Row], tokens: int) -> Iterator[list[Row]]:
        """The rows in order, cut between prompts into pieces of about this many tokens.

        A prompt is counted once for the rows that follow it; only a prompt whose rows alone exceed
        the size is cut, and then read again.
        """
        piece: list[Row] = []
        size = 0
        for row in rows:
            fresh = not piece or row.prompt_ids != piece[-1].prompt_ids
            cost = len(row.token_ids) + len(row.prompt_ids) * fresh
            if piece and size + cost > tokens * (1 if fresh else 2):
                yield piece
                piece, size, cost = [], 0, len(row.token_ids) + len(row.prompt_ids)
            piece.append(row)
            size += cost
        if piece:
            yield piece


def pack(groups: Sequence[Group], objective: Objective, *, sampling: Sampling, exact: bool) -> Batch:
    """The batch of a step: advantages within each group, every rollout of every group in it.

    Args:
        groups: all that was planned, of equal size.
        sampling: how every completion was drawn.
        exact: whether the engine's log-probabilities must be the learner's in every bit.
    Raises: ConfigError E033 when the objective does not take these rewards.
    """
    rewards = torch.tensor([group.rewards for group in groups], dtype=torch.float64)
    try:
        advantages = objective.advantage(rewards).flatten().tolist()
    except ValueError as error:
        raise ConfigError(
            "E033",
            f"{objective.name} cannot weigh the rewards of this step",
            why=str(error),
            fix="objective=rloo takes any reward; an env.format=0 leaves rewards of 0 and 1",
        ) from error
    rollouts = [(place, rollout) for place, group in enumerate(groups) for rollout in group.rollouts]
    rows = tuple(
        Row(
            prompt_ids=turn.prompt_ids,
            token_ids=turn.completion.token_ids,
            behavior_logp=turn.completion.logprobs,
            advantage=advantage,
            sequence=sequence,
            group=place,
        )
        for sequence, ((place, rollout), advantage) in enumerate(zip(rollouts, advantages, strict=True))
        for turn in rollout.turns
    )
    sizes = Denominators(
        groups=len(groups),
        sequences=len(rollouts),
        tokens=sum(len(row.token_ids) for row in rows),
        max_tokens=sampling.max_tokens,
        group_tokens=tuple(
            sum(len(turn.completion.token_ids) for rollout in group.rollouts for turn in rollout.turns)
            for group in groups
        ),
    )
    return Batch(rows=rows, denominators=sizes, temperature=sampling.temperature, exact=exact)
