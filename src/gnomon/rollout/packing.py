"""Groups of rollouts to the sequences that a learner trains on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from math import isnan

import torch

from gnomon.learners import batch as learning
from gnomon.objectives import Denominators, Rollouts
from gnomon.types import Finish, Group, Rollout, Sampling, Stop, Turn

__all__ = ["pack"]

CUT = frozenset({Stop.TRUNCATED, Stop.CONTEXT})
"""Ends of a rollout that a length limit brought about."""


def pack(groups: Sequence[Group], *, sampling: Sampling, exact: bool, limit: int | None = None) -> learning.Batch:
    """The batch of a step: every rollout of every group that is not spare, before advantages are computed.

    A rollout is one sequence, or several where its history was rewritten; turns without a token of the policy's own
    are in none.

    Args:
        groups: the planned groups, of equal size, and the spare ones.
        sampling: how every completion was drawn.
        exact: whether the engine's log-probabilities must be the learner's in every bit.
        limit: most tokens that a rollout can sample in all its turns, `Actor.longest`. It is a divisor of some
            objectives, so it must be the same in every step. Default: the limit of one reply.
    """
    groups = [group for group in groups if not group.spare]
    rollouts = [(place, rollout) for place, group in enumerate(groups) for rollout in group.rollouts]
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
        player=torch.tensor([[rollout.player for rollout in group.rollouts] for group in groups]),
        demonstrated=torch.tensor([[prefilled(rollout) for rollout in group.rollouts] for group in groups]),
        segment=torch.tensor([place for _, rollout in rollouts for place in segments(rollout)], dtype=torch.int64),
    )
    return learning.Batch(
        sequences=tuple(
            found
            for number, (place, rollout) in enumerate(rollouts)
            for found in sequences(rollout, number=number, group=place)
        ),
        rollouts=seen,
        denominators=sizes,
        temperature=sampling.temperature,
        exact=exact,
    )


def sequences(rollout: Rollout, *, number: int, group: int) -> Iterator[learning.Sequence]:
    """One for each time that its history was begun anew. Args: number, group: its indices in the step."""
    spoken = ((place, turn) for place, turn in enumerate(rollout.turns) if turn.completion.token_ids)
    for _, turns in groupby(spoken, key=lambda found: found[1].fork):
        yield conversation(list(turns), number=number, group=group, player=rollout.player)


def conversation(turns: Sequence[tuple[int, Turn]], *, number: int, group: int, player: int) -> learning.Sequence:
    """Turns that go on from each other, each with its place in the rollout, as one sequence."""
    last = turns[-1][1]
    token_ids = torch.tensor(last.prompt_ids + last.completion.token_ids)
    trainable = torch.zeros(len(token_ids), dtype=torch.bool)
    for _, turn in turns:
        start = len(turn.prompt_ids)
        trainable[start : start + len(turn.completion.token_ids)] = True
    sizes = torch.tensor([len(turn.completion.token_ids) for _, turn in turns])
    return learning.Sequence(
        token_ids=token_ids,
        trainable=trainable,
        behavior_logp=torch.tensor([x for _, turn in turns for x in turn.completion.logprobs], dtype=torch.float64),
        version=torch.tensor([turn.completion.version for _, turn in turns]).repeat_interleave(sizes),
        turn=torch.tensor([place for place, _ in turns]).repeat_interleave(sizes),
        rollout=number,
        group=group,
        player=player,
    )


def longest(rollout: Rollout, sampling: Sampling) -> int:
    """Tokens of its longest reply. One that was truncated, by its own limit or by the end of the context, counts as
    one of full length."""
    replies = [turn.completion for turn in rollout.turns]
    sizes = (sampling.max_tokens if reply.finish is Finish.LENGTH else len(reply.token_ids) for reply in replies)
    return max(sizes, default=0)


def prefilled(rollout: Rollout) -> bool:
    """Whether no token of it was sampled where it stands."""
    logps = [logp for turn in rollout.turns for logp in turn.completion.logprobs]
    return bool(logps) and all(map(isnan, logps))


def segments(rollout: Rollout) -> list[int]:
    """The part of the rollout that each token stands in: a new turn, or a change from sampled to prefilled, begins
    one."""
    marks = [(place, isnan(logp)) for place, turn in enumerate(rollout.turns) for logp in turn.completion.logprobs]
    return list(accumulate((after != before for before, after in pairwise(marks)), initial=0))[: len(marks)]


def same_answers(group: Group) -> list[int]:
    """A number for every rollout of a group, equal where the same answer was taken from both."""
    names: dict[str | None, int] = {}
    return [names.setdefault(rollout.verdict.extracted, len(names)) for rollout in group.rollouts]
