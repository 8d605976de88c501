"""From advantages to coefficients κ, which are the same however a step is cut into micro-batches."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from gnomon.learners.batch import Batch, TokenSequence
from gnomon.objectives import Coefficients, Objective, Reach, Tokens

__all__ = ["coefficients", "cut", "units"]


def coefficients(batch: Batch, logp: Tensor, objective: Objective) -> Coefficients:
    """Of every token of a batch, which holds everything within the objective's reach of each.

    Args: logp: [T] under the policy as it is, detached.
    """
    return objective.factors(tokens_of(batch, logp, objective), batch.denominators)


def cut(pieces: Collection[Batch], reach: Reach) -> bool:
    """Whether some sequence has sequences within its reach in another piece."""
    whole = [units(piece.sequences, reach) for piece in pieces]
    return sum(map(len, whole)) > len(set().union(*whole))


def units(sequences: Collection[TokenSequence], reach: Reach) -> set[int]:
    """What must stay whole for the coefficients of these sequences: rollouts, groups, or the step itself."""
    match reach:
        case Reach.TOKEN:
            return set()
        case Reach.SEQUENCE:
            return {sequence.rollout for sequence in sequences}
        case Reach.GROUP:
            return {sequence.group for sequence in sequences}
        case Reach.STEP:
            return {0} if sequences else set()


def tokens_of(batch: Batch, logp: Tensor, objective: Objective) -> Tokens:
    """A batch as an objective sees it. A token that was prefilled has the ratio one to its sampler."""

    def like(values: Tensor | None) -> Tensor | None:
        return None if values is None else values.to(logp.dtype)

    behavior, proximal = batch.behavior_logp.to(logp.dtype), like(batch.proximal_logp)
    assert batch.advantage is not None, "the batch was not prepared for an objective"
    rollout, supplied = batch.rollout, batch.rollouts.demonstrated
    return Tokens(
        logp=logp,
        behavior_logp=torch.where(behavior.isnan(), logp if proximal is None else proximal, behavior),
        proximal_logp=logp if proximal is None and objective.corrects else proximal,
        reference_logp=like(batch.reference_logp),
        advantage=batch.advantage.to(logp.dtype),
        sequence=rollout,
        group=batch.group,
        demonstrated=None if supplied is None else supplied.flatten()[rollout],
        right=batch.rollouts.rewards.flatten()[rollout] >= 1,
        length=batch.rollouts.lengths.flatten()[rollout],
        position=batch.position,
    )
