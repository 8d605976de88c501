"""The coefficients of an optimiser step, which are the same however it is cut into micro-batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gnomon.learners.batch import Batch, Row
from gnomon.objectives import Objective, Reach, Tokens

__all__ = ["Coefficients", "coefficients", "cut", "on_tokens", "units"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """What an objective makes of the tokens of rows, each [T], rows end to end."""

    kappa: Tensor
    """Of ∇log π."""
    weight: Tensor
    """Of the aggregate alone, for the terms that stand beside the objective."""
    clipped: Tensor
    """bool, whether the ratio took the credit of the token away."""

    def split(self, rows: Sequence[Sequence[Row]]) -> list[Coefficients]:
        """Those of consecutive pieces of the rows. Rows that follow the last piece are left out."""
        sizes = [sum(len(row.token_ids) for row in piece) for piece in rows]
        parts = [torch.split(part[: sum(sizes)], sizes) for part in (self.kappa, self.weight, self.clipped)]
        return [Coefficients(kappa=k, weight=w, clipped=c) for k, w, c in zip(*parts, strict=True)]


def coefficients(rows: Sequence[Row], logp: Tensor, batch: Batch, objective: Objective) -> Coefficients:
    """Of every token of the rows.

    Args: rows: everything within the objective's reach of each; logp: [T] under the policy as it is, detached.
    """
    tokens = tokens_of(rows, logp, batch, objective)
    return Coefficients(
        kappa=objective.coefficients(tokens, batch.denominators),
        weight=objective.aggregate(tokens, batch.denominators),
        clipped=(objective.ratio(tokens) == 0) & (tokens.advantage != 0),
    )


def cut(pieces: Sequence[Sequence[Row]], reach: Reach) -> bool:
    """Whether some row has rows within its reach in another piece."""
    found = [units(rows, reach) for rows in pieces]
    return sum(map(len, found)) > len(set().union(*found))


def units(rows: Sequence[Row], reach: Reach) -> set[int]:
    """What must stay whole for the coefficients of these rows: rollouts, groups, or the step itself."""
    match reach:
        case Reach.TOKEN:
            return set()
        case Reach.SEQUENCE:
            return {row.sequence for row in rows}
        case Reach.GROUP:
            return {row.group for row in rows}
        case Reach.STEP:
            return {0} if rows else set()


def tokens_of(rows: Sequence[Row], logp: Tensor, batch: Batch, objective: Objective) -> Tokens:
    """Rows as an objective sees them. A token that was given has the ratio one to its sampler."""
    behavior = on_tokens([row.behavior_logp for row in rows], logp)
    advantage = on_tokens([row.advantage for row in rows], logp)
    assert behavior is not None and advantage is not None
    moved = on_tokens([row.proximal_logp for row in rows], logp)
    sequence, given = spread(rows, [row.sequence for row in rows]), batch.rollouts.demonstrated
    return Tokens(
        logp=logp,
        behavior_logp=torch.where(behavior.isnan(), logp if moved is None else moved, behavior),
        proximal_logp=logp if moved is None and objective.corrects else moved,
        reference_logp=on_tokens([row.reference_logp for row in rows], logp),
        advantage=advantage,
        sequence=sequence,
        group=spread(rows, [row.group for row in rows]),
        demonstrated=None if given is None else given.flatten()[sequence],
        length=batch.rollouts.lengths.flatten()[sequence],
    )


def spread(rows: Sequence[Row], values: Sequence[int]) -> Tensor:
    """One number per row to one per token."""
    lengths = torch.tensor([len(row.token_ids) for row in rows])
    return torch.tensor(values, dtype=torch.int64).repeat_interleave(lengths)


def on_tokens(values: Sequence[tuple[float, ...] | None], like: Tensor) -> Tensor | None:
    """[T] values of rows end to end, or None where they have none."""
    known = [value for value in values if value is not None]
    return torch.tensor([x for value in known for x in value], dtype=like.dtype) if len(known) == len(values) else None
