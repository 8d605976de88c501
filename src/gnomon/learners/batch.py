"""What a learner sees of a step: sequences of tokens, and sizes of the whole step known before the first backward."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from gnomon.errors import ConfigError
from gnomon.keys import Key
from gnomon.models.trie import reading_order, shared
from gnomon.objectives import Denominators, Objective, Rollouts, across_seats

__all__ = ["Batch", "Sequence", "credited", "seats_merged"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sequence:
    """One conversation of one player, up to a rewrite of its history: L tokens, T of them trainable, T at least 1."""

    token_ids: Tensor
    """[L] int64, all that the policy saw and answered."""
    trainable: Tensor
    """[L] bool, whether a token is of a completion: sampled, or prefilled in its place."""
    behavior_logp: Tensor
    """[T] float64, as the engine reported it; NaN for a token that was prefilled, not sampled."""
    version: Tensor
    """[T] int64, of the weights that sampled each token."""
    turn: Tensor
    """[T] int64, the turn of the rollout that each token is of, from 0."""
    rollout: int
    """Index in the step."""
    group: int
    """Index in the step."""
    player: int

    def __len__(self) -> int:
        """T."""
        return len(self.behavior_logp)

    @property
    def inputs(self) -> Tensor:
        """The tokens that pass through the model: all before the last trainable one."""
        return self.token_ids[: int(self.trainable.nonzero()[-1])]

    @property
    def targets(self) -> Tensor:
        """[T] the trainable tokens."""
        return self.token_ids[self.trainable]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """Sequences of a step, or of a part of it, and the denominators of all that was planned for it.

    Vectors [T] are of the trainable tokens of these sequences, end to end.
    """

    sequences: tuple[Sequence, ...]
    rollouts: Rollouts
    """What credit sees of the whole step."""
    denominators: Denominators
    temperature: float
    """At which the tokens were sampled; log-probabilities are of that distribution."""
    exact: bool
    """Whether the sampler's log-probabilities must equal the learner's in every bit."""
    advantage: Tensor | None = None
    """[T] float64. None until the batch is prepared for an objective."""
    proximal_logp: Tensor | None = None
    """[T] float64, under the policy as the step began. None: the policy has not moved since."""
    reference_logp: Tensor | None = None
    """[T] float64."""
    returns: Tensor | None = None
    """[T] float64, what a critic should have expected before each token."""

    def __len__(self) -> int:
        """T."""
        return sum(map(len, self.sequences))

    @property
    def behavior_logp(self) -> Tensor:
        """[T] float64."""
        return self._joined([sequence.behavior_logp for sequence in self.sequences], torch.float64)

    @property
    def targets(self) -> Tensor:
        """[T] int64, the trainable tokens."""
        return self._joined([sequence.targets for sequence in self.sequences], torch.int64)

    @property
    def rollout(self) -> Tensor:
        """[T] int64, the rollout of every token."""
        return self._spread([sequence.rollout for sequence in self.sequences])

    @property
    def group(self) -> Tensor:
        """[T] int64, the group of every token."""
        return self._spread([sequence.group for sequence in self.sequences])

    @property
    def advantages(self) -> list[float]:
        """Of every rollout of the step, in order: the mean over its tokens, nothing where it has none."""
        found: list[list[float]] = [[] for _ in range(self.rollouts.rewards.numel())]
        if self.advantage is not None:
            for rollout, value in zip(self.rollout.tolist(), self.advantage.tolist(), strict=True):
                found[rollout].append(value)
        return [mean(values) for values in found]

    def tokens_of(self, places: Collection[int]) -> Tensor:
        """[T'] where the trainable tokens of some sequences stand among those of all."""
        starts = [*accumulate(map(len, self.sequences), initial=0)]
        return torch.cat([torch.arange(0), *[torch.arange(starts[place], starts[place + 1]) for place in places]])

    def take(self, places: Collection[int]) -> Batch:
        """Some of the sequences, in this order, as part of the same step."""
        tokens = self.tokens_of(places)

        def chosen(values: Tensor | None) -> Tensor | None:
            return None if values is None else values[tokens]

        return replace(
            self,
            sequences=tuple(self.sequences[place] for place in places),
            advantage=chosen(self.advantage),
            proximal_logp=chosen(self.proximal_logp),
            reference_logp=chosen(self.reference_logp),
            returns=chosen(self.returns),
        )

    def updates(self, epochs: int, minibatches: int, key: Key) -> Iterator[Batch]:
        """The optimiser steps to take with this batch: whole groups, each once per epoch, in keyed order.

        Every minibatch has denominators of its own; one epoch of one minibatch is the batch itself.
        """
        count = self.denominators.groups
        minibatches = min(minibatches, count)  # A step may hold fewer tasks than were asked for.
        for epoch in range(epochs):
            order = list(range(count))
            if minibatches > 1:
                key.at("epoch", epoch=epoch).random().shuffle(order)
            cuts = [count * part // minibatches for part in range(minibatches + 1)]
            for start, end in pairwise(cuts):
                yield self.only(set(order[start:end]))

    def only(self, groups: set[int]) -> Batch:
        """The sequences of some groups, as an optimiser step of their own."""
        sizes = self.denominators
        if len(groups) == sizes.groups:
            return self
        tokens = sum(size for group, size in enumerate(sizes.group_tokens) if group in groups)
        share = sizes.sequences // sizes.groups * len(groups)
        part = self.take([place for place, sequence in enumerate(self.sequences) if sequence.group in groups])
        return replace(part, denominators=replace(sizes, groups=len(groups), sequences=share, tokens=tokens))

    def look(self, read: Callable[[Batch], Tensor], tokens: int) -> Tensor:
        """[T] float64, what a reader of micro-batches finds for every token. Args: tokens: size of a micro-batch."""
        found = torch.full((len(self),), torch.nan, dtype=torch.float64)
        for places in self.micro_batches(tokens):
            found[self.tokens_of(places)] = read(self.take(places)).double()
        return found

    def micro_batches(self, tokens: int) -> list[list[int]]:
        """Places of the sequences, in reading order, cut into pieces of about this many tokens.

        A token that passes through the model once is counted once: a prefix that sequences of a piece share. A piece
        ends where it is full, within a group only where it is twice as full. A sequence is never cut, but the
        sequences of a rollout and the rollouts of a group may lie in different pieces.
        """
        inputs = [sequence.inputs for sequence in self.sequences]
        pieces: list[list[int]] = []
        size = 0
        for place in reading_order(inputs):
            before = pieces[-1][-1] if pieces else None
            fresh = len(inputs[place]) - (0 if before is None else shared(inputs[before], inputs[place]))
            same = before is not None and self.sequences[before].group == self.sequences[place].group
            if before is None or (fresh and size + fresh > tokens * (1 + same)):
                pieces.append([])
                size, fresh = 0, len(inputs[place])
            pieces[-1].append(place)
            size += fresh
        return pieces

    def _joined(self, parts: list[Tensor], dtype: torch.dtype) -> Tensor:
        return torch.cat([torch.zeros(0, dtype=dtype), *parts])

    def _spread(self, values: list[int]) -> Tensor:
        lengths = torch.tensor([len(sequence) for sequence in self.sequences], dtype=torch.int64)
        return torch.tensor(values, dtype=torch.int64).repeat_interleave(lengths)


def credited(batch: Batch, objective: Objective, seen: Mapping[str, Tensor]) -> Batch:
    """The batch with an advantage on every token.

    Args: seen: [T] what a learner found for the tokens: `logp`, `reference_logp`, `values`, or none of them.
    Raises: ConfigError E033 when the objective does not take these rewards.
    """
    rollouts = replace(batch.rollouts, **seen)
    try:
        credit = objective.credits(rollouts)
    except ValueError as error:
        raise ConfigError(
            "E033",
            f"{objective.name} cannot use the rewards of this step",
            why=str(error),
            fix="objective=rloo accepts any reward; env.format=0 gives rewards of 0 and 1",
        ) from error
    return replace(
        batch,
        advantage=credit.double(),
        proximal_logp=seen.get("logp"),
        reference_logp=seen.get("reference_logp"),
        returns=objective.value_targets(rollouts).double() if "values" in seen else None,
    )


def seats_merged(batch: Batch) -> Batch:
    """The batch with the groups of one task in all its seats as one group, in its sequences and sizes as in its
    rollouts."""
    rollouts = across_seats(batch.rollouts)
    groups, sizes = len(rollouts.rewards), batch.denominators
    if groups == len(batch.rollouts.rewards):
        return batch
    seats = sizes.groups // groups
    return replace(
        batch,
        sequences=tuple(replace(sequence, group=sequence.group // seats) for sequence in batch.sequences),
        rollouts=rollouts,
        denominators=replace(sizes, groups=groups, group_tokens=tuple(rollouts.lengths.sum(1).tolist())),
    )


def mean(values: list[float]) -> float:
    """The mean, the very value where all are one."""
    if len(set(values)) <= 1:
        return next(iter(values), 0.0)
    return sum(values) / len(values)
