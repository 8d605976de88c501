"""Groups to the rows a learner trains on, with the sizes of the whole step known before the first backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import isnan

import torch

from gnomon.errors import ConfigError
from gnomon.keys import Key
from gnomon.objectives import Denominators, Objective, Rollouts, across_seats
from gnomon.types import Finish, Group, Rollout, Sampling, Stop

__all__ = ["Batch", "Row", "credited", "pack"]

CUT = frozenset({Stop.TRUNCATED, Stop.CONTEXT})
"""Ends of a rollout that a length limit brought about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One completion, and what is known of each of its tokens."""

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    behavior_logp: tuple[float, ...]
    """As the engine reported it; NaN for a token that was given, not sampled."""
    sequence: int
    """Index of its rollout in the step."""
    group: int
    """Index of its group in the step."""
    advantage: tuple[float, ...] = ()
    """Empty until the batch is prepared for an objective."""
    proximal_logp: tuple[float, ...] | None = None
    """Under the policy as the step began. None: the policy has not moved since."""
    reference_logp: tuple[float, ...] | None = None
    returns: tuple[float, ...] | None = None
    """What a critic should have expected before each token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The rows of a step, or of one of its optimiser steps, and the denominators of all that was planned for it."""

    rows: tuple[Row, ...]
    rollouts: Rollouts
    """What credit sees of the whole step."""
    denominators: Denominators
    temperature: float
    """At which the rows were sampled; log-probabilities are of that distribution."""
    exact: bool
    """Whether the sampler's log-probabilities must equal the learner's in every bit."""

    @property
    def advantages(self) -> list[float]:
        """Of every rollout of the step, in order: the mean over its tokens, nothing where it has none."""
        found: list[list[float]] = [[] for _ in range(self.rollouts.rewards.numel())]
        for row in self.rows:
            found[row.sequence].extend(row.advantage)
        return [mean(values) for values in found]

    def updates(self, epochs: int, minibatches: int, key: Key) -> Iterator[Batch]:
        """The optimiser steps to take with these rows: whole groups, each once per epoch, in keyed order.

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
        """The rows of some groups, as an optimiser step of their own."""
        sizes = self.denominators
        if len(groups) == sizes.groups:
            return self
        tokens = sum(size for group, size in enumerate(sizes.group_tokens) if group in groups)
        share = sizes.sequences // sizes.groups * len(groups)
        return replace(
            self,
            rows=tuple(row for row in self.rows if row.group in groups),
            denominators=replace(sizes, groups=len(groups), sequences=share, tokens=tokens),
        )

    def look(self, read: Callable[[Sequence[Row]], torch.Tensor], tokens: int) -> list[tuple[float, ...]]:
        """What a reader of rows finds for every token, by row, in order.

        Args: read: rows that are not empty, of whole prompts, to [T] values; tokens: size of a micro-batch.
        """
        spoken = [place for place, row in enumerate(self.rows) if row.token_ids]
        order = [spoken[place] for place in by_prompt([self.rows[place] for place in spoken])]
        found: list[tuple[float, ...]] = [()] * len(self.rows)
        places = iter(order)
        for rows in self.micro_batches([self.rows[place] for place in order], tokens):
            for values in torch.split(read(rows), [len(row.token_ids) for row in rows]):
                found[next(places)] = tuple(values.tolist())
        return found

    def micro_batches(self, rows: Sequence[Row], tokens: int) -> Iterator[list[Row]]:
        """The rows in order, cut between prompts into pieces of about this many tokens.

        What passes through the model once is counted once: a prompt for the rows that follow it, and rows that are
        equal. Only a prompt whose rows alone exceed the size is cut, and then read again. A row is never cut, but the
        turns of a rollout and the rollouts of a group are.
        """
        piece: list[Row] = []
        size, seen = 0, set[tuple[int, ...]]()
        for row in rows:
            fresh = not piece or row.prompt_ids != piece[-1].prompt_ids
            if fresh:
                seen.clear()
            cost = len(row.token_ids) * (row.token_ids not in seen) + len(row.prompt_ids) * fresh
            if piece and cost and size + cost > tokens * (1 if fresh else 2):
                yield piece
                piece, size, cost = [], 0, len(row.token_ids) + len(row.prompt_ids)
                seen.clear()
            piece.append(row)
            seen.add(row.token_ids)
            size += cost
        if piece:
            yield piece


def pack(groups: Sequence[Group], *, sampling: Sampling, exact: bool, limit: int | None = None) -> Batch:
    """The batch of a step: every rollout of every group that is not spare, before advantages are computed.

    Args:
        groups: the planned groups, of equal size, and the spare ones.
        sampling: how every completion was drawn.
        exact: whether the engine's log-probabilities must be the learner's in every bit.
        limit: most tokens that a rollout can sample in all its turns, `Actor.longest`. It is a divisor of some
            objectives, so it must be the same in every step. Default: the limit of one reply.
    """
    groups = [group for group in groups if not group.spare]
    rollouts = [(place, rollout) for place, group in enumerate(groups) for rollout in group.rollouts]
    rows = tuple(
        Row(
            prompt_ids=turn.prompt_ids,
            token_ids=turn.completion.token_ids,
            behavior_logp=turn.completion.logprobs,
            sequence=sequence,
            group=place,
        )
        for sequence, (place, rollout) in enumerate(rollouts)
        for turn in rollout.turns
    )
    lengths = torch.tensor([[rollout.tokens for rollout in group.rollouts] for group in groups])
    sizes = Denominators(
        groups=len(groups),
        sequences=len(rollouts),
        tokens=int(lengths.sum()),
        max_tokens=limit or sampling.max_tokens,
        group_tokens=tuple(lengths.sum(1).tolist()),
    )
    seen = Rollouts(
        rewards=torch.tensor([group.rewards for group in groups], dtype=torch.float64),
        lengths=lengths,
        longest=torch.tensor([[longest(rollout, sampling) for rollout in group.rollouts] for group in groups]),
        answers=torch.tensor([same_answers(group) for group in groups]),
        finished=torch.tensor([[rollout.stop not in CUT for rollout in group.rollouts] for group in groups]),
        seat=torch.tensor([[rollout.seat for rollout in group.rollouts] for group in groups]),
        demonstrated=torch.tensor([[given(rollout) for rollout in group.rollouts] for group in groups]),
        segment=torch.tensor([place for _, rollout in rollouts for place in segments(rollout)], dtype=torch.int64),
    )
    return Batch(rows=rows, rollouts=seen, denominators=sizes, temperature=sampling.temperature, exact=exact)


def credited(batch: Batch, objective: Objective, seen: Mapping[str, Sequence[tuple[float, ...]]]) -> Batch:
    """The batch with an advantage on every token.

    Args: seen: what a learner found for the tokens of every row: `logp`, `reference_logp`, `values`, or none of them.
    Raises: ConfigError E033 when the objective does not take these rewards.
    """
    flat = {name: torch.tensor([x for row in rows for x in row], dtype=torch.float64) for name, rows in seen.items()}
    rollouts = replace(batch.rollouts, **flat)
    try:
        credit = objective.credits(rollouts)
    except ValueError as error:
        raise ConfigError(
            "E033",
            f"{objective.name} cannot weigh the rewards of this step",
            why=str(error),
            fix="objective=rloo takes any reward; an env.format=0 leaves rewards of 0 and 1",
        ) from error
    sizes = [len(row.token_ids) for row in batch.rows]
    returns = torch.split(objective.value_targets(rollouts), sizes) if "values" in seen else None
    rows = tuple(
        replace(
            row,
            advantage=tuple(advantage.tolist()),
            proximal_logp=seen["logp"][place] if "logp" in seen else None,
            reference_logp=seen["reference_logp"][place] if "reference_logp" in seen else None,
            returns=tuple(returns[place].tolist()) if returns else None,
        )
        for place, (row, advantage) in enumerate(zip(batch.rows, torch.split(credit, sizes), strict=True))
    )
    return replace(batch, rows=rows)


def seats_merged(batch: Batch) -> Batch:
    """The batch with the groups of one task in all its seats as one group, in its rows and sizes as in its rollouts."""
    rollouts = across_seats(batch.rollouts)
    groups, sizes = len(rollouts.rewards), batch.denominators
    if groups == len(batch.rollouts.rewards):
        return batch
    seats = sizes.groups // groups
    return replace(
        batch,
        rows=tuple(replace(row, group=row.group // seats) for row in batch.rows),
        rollouts=rollouts,
        denominators=replace(sizes, groups=groups, group_tokens=tuple(rollouts.lengths.sum(1).tolist())),
    )


def by_prompt(rows: Sequence[Row]) -> list[int]:
    """Places of the rows in an order where those of a prompt stand together: two tasks may ask the same."""
    first = {prompt: i for i, prompt in enumerate(dict.fromkeys(row.prompt_ids for row in rows))}
    return sorted(range(len(rows)), key=lambda place: first[rows[place].prompt_ids])


def prompts_and_rows(rows: Sequence[Row]) -> tuple[list[tuple[int, ...]], list[tuple[int, tuple[int, ...]]]]:
    """The distinct prompts, in order, and every row with the index of its prompt."""
    prompts = list(dict.fromkeys(row.prompt_ids for row in rows))
    place = {prompt: index for index, prompt in enumerate(prompts)}
    return prompts, [(place[row.prompt_ids], row.token_ids) for row in rows]


def longest(rollout: Rollout, sampling: Sampling) -> int:
    """Tokens of its longest reply. One that was cut off, by its own limit or by the end of the context, counts as one
    of full length."""
    replies = [turn.completion for turn in rollout.turns]
    sizes = (sampling.max_tokens if reply.finish is Finish.LENGTH else len(reply.token_ids) for reply in replies)
    return max(sizes, default=0)


def given(rollout: Rollout) -> bool:
    """Whether no token of it was sampled where it stands."""
    logps = [logp for turn in rollout.turns for logp in turn.completion.logprobs]
    return bool(logps) and all(map(isnan, logps))


def segments(rollout: Rollout) -> list[int]:
    """The part of the rollout that each token stands in: a new turn, or a change from sampled to given, begins one."""
    marks = [(place, isnan(logp)) for place, turn in enumerate(rollout.turns) for logp in turn.completion.logprobs]
    return list(accumulate((after != before for before, after in pairwise(marks)), initial=0))[: len(marks)]


def same_answers(group: Group) -> list[int]:
    """A number for every rollout of a group, equal where the same answer was taken from both."""
    names: dict[str | None, int] = {}
    return [names.setdefault(rollout.verdict.extracted, len(names)) for rollout in group.rollouts]


def mean(values: Sequence[float]) -> float:
    """The mean, the very value where all are one."""
    if len(set(values)) <= 1:
        return next(iter(values), 0.0)
    return sum(values) / len(values)
