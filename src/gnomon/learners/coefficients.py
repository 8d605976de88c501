"""From advantages to coefficients κ, which are the same however a step is cut into micro-batches."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gnomon.learners.batch import Batch, TokenSequence
from gnomon.objectives import Objective, Reach, Tokens

__all__ = ["Coefficients", "coefficients", "cut", "units"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """The coefficients that an objective gives to the tokens of a batch."""

    kappa: Tensor
    """[T] κ, the factor of ∇log π of each token."""
    weight: Tensor
    """[T] the factor of each token by the aggregate alone, for the terms beside it: entropy bonus and full KL."""
    clipped: Tensor
    """[T] bool, whether the clip or mask of the ratio removed the credit of the token."""
    observation: float = 0.0
    """Weight of the mean log-likelihood of the observed tokens, at least 0."""

    def take(self, tokens: Tensor) -> Coefficients:
        """The coefficients of some of the tokens."""
        return replace(self, kappa=self.kappa[tokens], weight=self.weight[tokens], clipped=self.clipped[tokens])


def coefficients(batch: Batch, logp: Tensor, objective: Objective) -> Coefficients:
    """Of every token of a batch, which holds everything within the objective's reach of each.

    Args: logp: [T] under the policy as it is, detached.
    """
    tokens = tokens_of(batch, logp, objective)
    kappa, weight, ratio = objective.factors(tokens, batch.denominators)
    clipped = (ratio == 0) & (tokens.advantage != 0)
    return Coefficients(kappa=kappa, weight=weight, clipped=clipped, observation=objective.observation)


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
