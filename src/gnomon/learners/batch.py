"""What a learner sees of a step: sequences of tokens, and sizes of the whole step known before the first backward."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from gnomon.errors import NumericsError
from gnomon.keys import Key
from gnomon.models.trie import common_length, reading_order
from gnomon.objectives import Denominators, Rollouts, places_in

__all__ = ["Batch", "TokenSequence", "costliest_first", "costs", "pieces"]


class Likely(NamedTuple):
    """A sequence whose observed tokens are scored as well as those of its completions."""

    token_ids: Tensor
    """[L] int64."""
    trainable: Tensor
    """[L] bool, whether a token is scored."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenSequence:
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
    observed: Tensor | None = None
    """[L] bool, whether a token is text of the environment after the first reply of the rollout. False for tokens of
    the chat template, and for text in a rewritten history that an earlier sequence already contains. None: no token."""

    def __post_init__(self) -> None:
        """Raises: NumericsError E205 where the first token is trainable: nothing comes before it."""
        if bool(self.trainable[:1].any()):
            raise NumericsError(
                "E205",
                "a sequence begins with a trainable token, which no model can score",
                where=f"TokenSequence of rollout {self.rollout}, group {self.group}",
                why="a log-probability is conditioned on the tokens before it, and here there are none",
                fix="begin token_ids with the prompt or the begin token, with False in trainable",
            )

    def __len__(self) -> int:
        """T."""
        return len(self.behavior_logp)

    @property
    def observations(self) -> int:
        """Number of observed tokens."""
        return 0 if self.observed is None else int(self.observed.sum())

    @property
    def likely(self) -> Likely:
        """The tokens whose likelihood can be trained: trainable and observed ones."""
        scored = self.trainable if self.observed is None else self.trainable | self.observed
        return Likely(token_ids=self.token_ids, trainable=scored)

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

    sequences: tuple[TokenSequence, ...]
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
    values: Tensor | None = None
    """[T] float64, what the critic expected before each token as the step began."""
    returns: Tensor | None = None
    """[T] float64, what a critic should have expected before each token."""

    def __len__(self) -> int:
        """T."""
        return sum(map(len, self.sequences))

    @property
    def behavior_logp(self) -> Tensor:
        """[T] float64."""
        return self._join([sequence.behavior_logp for sequence in self.sequences], torch.float64)

    @property
    def targets(self) -> Tensor:
        """[T] int64, the trainable tokens."""
        return self._join([sequence.targets for sequence in self.sequences], torch.int64)

    @property
    def rollout(self) -> Tensor:
        """[T] int64, the rollout of every token."""
        return self._spread([sequence.rollout for sequence in self.sequences])

    @property
    def group(self) -> Tensor:
        """[T] int64, the group of every token."""
        return self._spread([sequence.group for sequence in self.sequences])

    @property
    def position(self) -> Tensor:
        """[T] int64, the place of every token among those of its rollout that are here, turn after turn."""
        rollout = self.rollout
        turn = self._join([sequence.turn for sequence in self.sequences], torch.int64)
        order = (rollout * (1 + int(turn.max())) + turn if len(turn) else turn).argsort(stable=True)
        return torch.empty_like(order).index_copy_(0, order, places_in(rollout[order]))

    @property
    def mean_advantages(self) -> list[float]:
        """Of every rollout of the step, in order, over its tokens; 0 where it has none."""
        return [mean(values) for values in self.by_rollout(self.advantage)]

    def by_rollout(self, values: Tensor | None) -> list[list[float]]:
        """Values [T] of the tokens, for every rollout of the step in order; nothing of each where there are none."""
        result: list[list[float]] = [[] for _ in range(self.rollouts.rewards.numel())]
        if values is not None:
            for rollout, value in zip(self.rollout.tolist(), values.tolist(), strict=True):
                result[rollout].append(value)
        return result

    def tokens_of(self, places: Collection[int]) -> Tensor:
        """[T'] where the trainable tokens of some sequences stand among those of all."""
        starts = [*accumulate(map(len, self.sequences), initial=0)]
        return torch.tensor(
            [token for index in places for token in range(starts[index], starts[index + 1])],
            dtype=torch.int64,
            device="cpu",
        )

    def take(self, places: Collection[int]) -> Batch:
        """Some of the sequences, in this order, as part of the same step."""
        tokens = self.tokens_of(places)

        def rows(values: Tensor | None) -> Tensor | None:
            return None if values is None else values[tokens]

        return replace(
            self,
            sequences=tuple(self.sequences[index] for index in places),
            advantage=rows(self.advantage),
            proximal_logp=rows(self.proximal_logp),
            reference_logp=rows(self.reference_logp),
            values=rows(self.values),
            returns=rows(self.returns),
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
        part = self.take([index for index, sequence in enumerate(self.sequences) if sequence.group in groups])
        observed = sum(sequence.observations for sequence in part.sequences)
        sizes = replace(sizes, groups=len(groups), sequences=share, tokens=tokens, observed=observed)
        return replace(part, denominators=sizes)

    def micro_batches(self, tokens: int, shares: bool = True) -> list[list[int]]:
        """Places of the sequences, as `pieces`."""
        return pieces(self.sequences, tokens, shares)

    def _join(self, parts: list[Tensor], dtype: torch.dtype) -> Tensor:
        return torch.cat([torch.zeros(0, dtype=dtype, device="cpu"), *parts])

    def _spread(self, values: list[int]) -> Tensor:
        lengths = torch.tensor([len(sequence) for sequence in self.sequences], dtype=torch.int64, device="cpu")
        return torch.tensor(values, dtype=torch.int64, device="cpu").repeat_interleave(lengths)


def pieces(sequences: Sequence[TokenSequence], tokens: int, shares: bool = True) -> list[list[int]]:
    """Places of the sequences, in reading order, cut into pieces of about this many tokens.

    A token that passes through the model once is counted once: a prefix that sequences of a piece share. A piece
    ends where it is full, within a group only where it is twice as full. A sequence is never cut, but the
    sequences of a rollout and the rollouts of a group may lie in different pieces.

    Args: shares: False for passes of padded rows, where every place of a row is counted.
    """
    inputs = [sequence.inputs for sequence in sequences]
    result: list[list[int]] = []
    size = longest = 0
    for index in reading_order(inputs):
        before = result[-1][-1] if result else None
        longest = max(longest, len(inputs[index]))
        grown = size + own_tokens(inputs[index], None if before is None else inputs[before])
        if not shares:
            grown = longest * (1 + len(result[-1]) if result else 1)
        same = before is not None and sequences[before].group == sequences[index].group
        if before is None or (grown > size and grown > tokens * (1 + same)):
            result.append([])
            grown = longest = len(inputs[index])
        result[-1].append(index)
        size = grown
    return result


def costs(sequences: Sequence[TokenSequence], cuts: Sequence[Sequence[int]], width: int) -> list[float]:
    """What a pass of each micro-batch costs, in units of one token that attends to nothing.

    Equation: Σ_i (n_i + n_i·L_i/(12·d)) over sequences i, with L_i their tokens, n_i those not shared with the one
        before, and d the width of the model.
    Args: cuts: as `pieces` gives them; width: d.
    Source: Kaplan et al. 2020, arXiv 2001.08361, equation 2.2, with 12·d² weights in a layer.
    """
    result = []
    for places in cuts:
        inputs = [sequences[index].inputs for index in places]
        own = [own_tokens(after, before) for before, after in pairwise([None, *inputs]) if after is not None]
        result.append(sum(n * (1 + len(ids) / (12 * width)) for n, ids in zip(own, inputs, strict=True)))
    return result


def costliest_first(costs: Sequence[float]) -> list[int]:
    """Places of the costs, from the highest to the lowest; equal ones keep their order."""
    return sorted(range(len(costs)), key=lambda index: -costs[index])


def own_tokens(inputs: Tensor, before: Tensor | None) -> int:
    """Tokens of a sequence that the sequence before it does not begin with."""
    return len(inputs) - (0 if before is None else common_length(before, inputs))


def mean(values: list[float]) -> float:
    """The mean, the very value where all are one."""
    if len(set(values)) <= 1:
        return next(iter(values), 0.0)
    return sum(values) / len(values)
