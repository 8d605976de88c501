"""Pack groups of rollouts into the sequences that a learner trains on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, count, groupby, pairwise, takewhile
from math import isnan

import torch

from gnomon.learners import batch as learning
from gnomon.objectives import Denominators, Ended, Rollouts
from gnomon.types import Finish, Group, Message, Origin, Rollout, Sampling, Stop, Turn, Verdict

__all__ = ["pack"]

CUT = frozenset({Stop.TRUNCATED, Stop.CONTEXT})
"""Stop reasons that are length limits."""
ENDED = {
    Stop.TRUNCATED: Ended.REPLY,
    Stop.TURNS: Ended.BETWEEN,
    Stop.CONTEXT: Ended.BETWEEN,
    Stop.TIME: Ended.BETWEEN,
}
"""Stop reasons that are limits."""
OBSERVED = frozenset({Origin.ENVIRONMENT, Origin.TOOL})
"""Who writes observations: the environment and its tools, and not the template around them."""


def pack(groups: Sequence[Group], *, sampling: Sampling, exact: bool, limit: int | None = None) -> learning.Batch:
    """The batch of a step, before advantages: all rollouts of all groups that are not spare.

    A rollout is one sequence, or several if its history was rewritten. Turns without tokens of the policy are in no
    sequence.

    Args:
        groups: the planned groups, of equal size, and the spare ones.
        sampling: how every completion was drawn.
        exact: whether the engine's log-probabilities must be bitwise equal to the learner's.
        limit: largest number of tokens that a rollout can sample over all turns, `Actor.longest`. Some objectives
            divide by it, so it must be the same in every step. Default: the limit of one reply.
    """
    groups = [group for group in groups if not group.spare]
    rollouts = [(index, rollout) for index, group in enumerate(groups) for rollout in group.rollouts]
    scores = budget_scores(groups)

    def table(of: Callable[[Rollout], int]) -> torch.Tensor:
        """[G, N] a number of every rollout."""
        return torch.tensor([[of(rollout) for rollout in group.rollouts] for group in groups])

    lengths = table(lambda rollout: rollout.tokens)
    conversations = tuple(
        sequence
        for number, (group, rollout) in enumerate(rollouts)
        for sequence in sequences(rollout, number=number, group=group)
    )
    return learning.Batch(
        sequences=conversations,
        rollouts=Rollouts(
            rewards=torch.tensor([group.rewards for group in groups], dtype=torch.float64),
            lengths=lengths,
            longest=table(lambda rollout: longest(rollout, sampling)),
            answers=torch.tensor([same_answers(group) for group in groups]),
            finished=table(lambda rollout: rollout.stop not in CUT),
            ended=table(lambda rollout: ENDED.get(rollout.stop, Ended.ITSELF)),
            task=torch.tensor([[group.index] * len(group.rollouts) for group in groups]),
            player=table(lambda rollout: rollout.player),
            demonstrated=table(prefilled),
            greedy=greedy_rewards(groups),
            budget_scores=scores,
            **reward_parts(groups),
            observation=of_tokens(observations([rollout for _, rollout in rollouts])),
            segment=of_tokens(
                number for _, rollout in rollouts for number in (segments if scores is None else turns)(rollout)
            ),
        ),
        denominators=Denominators(
            groups=len(groups),
            sequences=len(rollouts),
            tokens=int(lengths.sum()),
            max_tokens=limit or sampling.max_tokens,
            group_tokens=tuple(lengths.sum(1).tolist()),
            observed=sum(sequence.observations for sequence in conversations),
        ),
        temperature=sampling.temperature,
        exact=exact,
    )


def of_tokens(numbers: Iterable[int]) -> torch.Tensor:
    """[T] a number of every token."""
    return torch.tensor([*numbers], dtype=torch.int64)


def sequences(rollout: Rollout, *, number: int, group: int) -> Iterator[learning.TokenSequence]:
    """Yield the sequences of a rollout, one per rewrite of its history. Args: number, group: indices in the step."""
    for _, part in groupby(enumerate(rollout.turns), key=lambda numbered: numbered[1].fork):
        turns = list(part)
        last = max((end for end, (_, turn) in enumerate(turns, 1) if turn.completion.token_ids), default=0)
        if last:
            yield conversation(turns[:last], number=number, group=group, player=rollout.player)


def conversation(turns: Sequence[tuple[int, Turn]], *, number: int, group: int, player: int) -> learning.TokenSequence:
    """One sequence from consecutive turns, each with its index in the rollout; the last one has tokens."""
    last = turns[-1][1]
    token_ids = torch.tensor(last.prompt_ids + last.completion.token_ids)
    trainable, observed = torch.zeros(2, len(token_ids), dtype=torch.bool)
    for index, turn in turns:
        start, marks = len(turn.prompt_ids), observation(turn) if index else []
        trainable[start : start + len(turn.completion.token_ids)] = True
        observed[start - len(marks) : start] = torch.tensor(marks, dtype=torch.bool)
    sizes = torch.tensor([len(turn.completion.token_ids) for _, turn in turns])
    return learning.TokenSequence(
        token_ids=token_ids,
        trainable=trainable,
        behavior_logp=torch.tensor([x for _, turn in turns for x in turn.completion.logprobs], dtype=torch.float64),
        version=torch.tensor([version for _, turn in turns for version in turn.completion.versions()]),
        turn=torch.tensor([index for index, _ in turns]).repeat_interleave(sizes),
        rollout=number,
        group=group,
        player=player,
        observed=observed,
    )


def observation(turn: Turn) -> list[bool]:
    """Of every token between the reply before a turn and the turn's own, whether the environment wrote it."""
    last = max((end for end, part in enumerate(turn.segments, 1) if part.origin is Origin.POLICY), default=0)
    return [part.origin in OBSERVED for part in turn.segments[last:] for _ in part.token_ids]


def greedy_rewards(groups: Sequence[Group]) -> torch.Tensor | None:
    """[G, N] the reward of each group's greedy rollout; None where a group has none."""
    rewards = [[group.greedy.reward] * len(group.rollouts) for group in groups if group.greedy is not None]
    return torch.tensor(rewards, dtype=torch.float64) if rewards and len(rewards) == len(groups) else None


def reward_parts(groups: Sequence[Group]) -> dict[str, torch.Tensor]:
    """The parts of every reward and their weights, [G, N, R] by name; nothing where no reward has one.

    A part that a verdict lacks, or whose gate is not met, is 0.
    """
    verdicts = [[rollout.verdict for rollout in group.rollouts] for group in groups]
    weights = {part.name: part.weight for row in verdicts for verdict in row for part in verdict.parts}
    names = sorted(weights)
    if not names:
        return {}

    def value_and_weight(verdict: Verdict, name: str) -> tuple[float, float]:
        values = {part.name: part.value for part in verdict.parts}
        part = next((part for part in verdict.parts if part.name == name), None)
        if part is None or (part.gate is not None and values[part.gate] <= 0):
            return 0.0, weights[name]
        return part.value, part.weight

    table = [[[value_and_weight(verdict, name) for name in names] for verdict in row] for row in verdicts]
    parts, part_weights = torch.tensor(table, dtype=torch.float64).unbind(3)
    return {"parts": parts, "part_weights": part_weights}


def budget_scores(groups: Sequence[Group]) -> torch.Tensor | None:
    """[G, N, M] the parts `at_0` … `at_{M-1}` of every verdict; None where there are none, or different ones.

    A rollout that the environment did not end has no such part, and 0 at every budget.
    """
    scores = [[at_budgets(rollout.verdict) for rollout in group.rollouts] for group in groups]
    sizes = {len(each) for row in scores for each in row} - {0}
    if len(sizes) != 1:
        return None
    (size,) = sizes
    return torch.tensor([[each or [0.0] * size for each in row] for row in scores], dtype=torch.float64)


def at_budgets(verdict: Verdict) -> list[float]:
    """The scores at the budgets, in order."""
    values = {part.name: part.value for part in verdict.parts}
    names = takewhile(values.__contains__, map("at_{}".format, count()))
    return [values[name] for name in names]


def turns(rollout: Rollout) -> list[int]:
    """The turn of each token."""
    return [index for index, turn in enumerate(rollout.turns) for _ in turn.completion.token_ids]


def longest(rollout: Rollout, sampling: Sampling) -> int:
    """Number of tokens of the longest reply. A truncated reply counts with the full limit."""
    replies = [turn.completion for turn in rollout.turns]
    sizes = (sampling.max_tokens if reply.finish is Finish.LENGTH else len(reply.token_ids) for reply in replies)
    return max(sizes, default=0)


def prefilled(rollout: Rollout) -> bool:
    """Whether no token of the rollout was sampled in its context."""
    logps = [logp for turn in rollout.turns for logp in turn.completion.logprobs]
    return bool(logps) and all(map(isnan, logps))


def segments(rollout: Rollout) -> list[int]:
    """The segment index of each token. A new turn, or a change between sampled and prefilled, begins a segment."""
    marks = [(index, isnan(logp)) for index, turn in enumerate(rollout.turns) for logp in turn.completion.logprobs]
    return list(accumulate((after != before for before, after in pairwise(marks)), initial=0))[: len(marks)]


def observations(rollouts: Sequence[Rollout]) -> list[int]:
    """A number for each token, equal for tokens of turns that reply to the same messages since the turn before."""
    names: dict[tuple[Message, ...], int] = {}
    turns = [turn for rollout in rollouts for turn in rollout.turns]
    return [names.setdefault(turn.messages, len(names)) for turn in turns for _ in turn.completion.token_ids]


def same_answers(group: Group) -> list[int]:
    """A number for every rollout of a group, equal for rollouts with the same extracted answer."""
    names: dict[str | None, int] = {}
    return [names.setdefault(rollout.verdict.extracted, len(names)) for rollout in group.rollouts]
