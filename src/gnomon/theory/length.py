"""Whether an objective changes how long answers are where length earns nothing: a world with closed forms.

A rollout is right with probability p. It then goes on token after token and stops at each with probability s, one
stop logit for right answers and one for wrong ones. The reward ignores length, so the gradient of the expected
reward in both logits is zero, and whatever an objective does to them is a bias of its own. The token that settles
whether the answer is right is not counted.

A token stops with score 1 − s and goes on with score −s, so an answer of L tokens scores 1 − s·L, of mean zero. The
mean stays zero under a weight that ignores L, and not under 1/L.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gnomon.objectives.credit import Rollouts
from gnomon.objectives.row import Objective, Scope
from gnomon.objectives.tokens import Denominators, Reach, Tokens
from gnomon.theory.exact import multisets

__all__ = ["LengthBias", "group_gradients", "length_bias"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthBias:
    """Mean gradient of one group on the two stop logits. Positive: such answers become shorter."""

    right: float
    wrong: float


def length_bias(
    row: Objective, *, group: int = 4, success: float = 0.4, stop: float = 0.4, max_tokens: int = 4
) -> LengthBias:
    """The bias of a row by enumeration, in a world whose answers are cut at a length limit.

    Args: group, rollouts per group; success, p; stop, s; max_tokens, the limit. An answer that reaches it without
        a stop is cut there, which leaves the true gradient at zero.
    Raises: ValueError where the row refuses such groups.
    """
    lengths = torch.arange(1, max_tokens + 1).repeat(2)
    ended = torch.ones(2 * max_tokens, dtype=torch.bool)
    chance = stop * (1 - stop) ** (lengths.to(torch.float64) - 1)
    lengths, ended = torch.cat([lengths, lengths.new_full((2,), max_tokens)]), torch.cat([ended, ended.new_zeros(2)])
    chance = torch.cat([chance, chance.new_full((2,), (1 - stop) ** max_tokens)])
    right = torch.cat([torch.arange(2).repeat_interleave(max_tokens), torch.arange(2)]).to(torch.float64)
    chance = chance * (right * success + (1 - right) * (1 - success))
    members, orderings = multisets(len(chance), group)
    gradients = group_gradients(row, right[members], lengths[members], ended[members], stop=stop, max_tokens=max_tokens)
    mean = (orderings * chance[members].prod(dim=1)) @ gradients
    return LengthBias(right=float(mean[0]), wrong=float(mean[1]))


def group_gradients(
    row: Objective, right: Tensor, lengths: Tensor, ended: Tensor, *, stop: float, max_tokens: int
) -> Tensor:
    """[G, 2] gradient on the stop logits of right and of wrong answers, each group a step of its own."""
    order = lengths.sum(dim=1).argsort(stable=True)
    right, lengths, ended = right[order], lengths[order], ended[order]
    parts = []
    for start, end in _runs(lengths.sum(dim=1).tolist()):
        mine = slice(start, end)
        rollouts, last = _rollouts(right[mine], lengths[mine]), lengths[mine].flatten().cumsum(0) - 1
        stops = torch.zeros(int(last[-1]) + 1, dtype=torch.bool)
        stops[last] = ended[mine].flatten()
        logp = torch.where(stops, math.log(stop), math.log1p(-stop)).to(torch.float64)
        agree = torch.full_like(logp, stop**2 + (1 - stop) ** 2)
        rollouts = replace(rollouts, logp=logp, reference_logp=logp, collision=agree)
        kappa = _coefficients(row, rollouts, logp, max_tokens=max_tokens)
        pushed = torch.zeros(rollouts.rewards.numel(), dtype=torch.float64)
        pushed.index_add_(0, rollouts.sequence, kappa * (stops.to(torch.float64) - stop))
        pushed = pushed.reshape(rollouts.rewards.shape)
        parts.append(torch.stack([(pushed * rollouts.rewards).sum(1), (pushed * (1 - rollouts.rewards)).sum(1)], dim=1))
    return torch.empty_like(joined := torch.cat(parts)).index_copy_(0, order, joined)


def _runs(values: list[int]) -> Iterator[tuple[int, int]]:
    """Bounds of the runs of equal values: groups with as many tokens share their denominators."""
    start = 0
    for end in range(1, len(values) + 1):
        if end == len(values) or values[end] != values[start]:
            yield start, end
            start = end


def _rollouts(right: Tensor, lengths: Tensor) -> Rollouts:
    """The groups as credit sees them: one segment each, two different answers, nothing expected."""
    total = int(lengths.sum())
    return Rollouts(
        rewards=right,
        lengths=lengths,
        answers=right.long(),
        baseline=torch.zeros_like(right),
        greedy=torch.zeros_like(right),
        parts=right[..., None],
        part_weights=torch.ones_like(right)[..., None],
        segment=torch.zeros(total, dtype=torch.int64),
        observation=torch.zeros(total, dtype=torch.int64),
        segment_rewards=right[..., None],
        values=torch.zeros(total, dtype=torch.float64),
        entropy=torch.ones(total, dtype=torch.float64),
        collision=torch.zeros(total, dtype=torch.float64),
    )


def _coefficients(row: Objective, rollouts: Rollouts, logp: Tensor, *, max_tokens: int) -> Tensor:
    """[T] of groups of as many tokens, each a step of its own."""
    groups, size = rollouts.rewards.shape
    total = len(logp) // groups
    if (row.scope is Scope.STEP or row.reach is Reach.STEP) and groups > 1:
        ends = rollouts.lengths.sum(dim=1).cumsum(0).tolist()
        parts = []
        for index, end in enumerate(ends):
            alone = _rollouts(rollouts.rewards[index : index + 1], rollouts.lengths[index : index + 1])
            part = logp[end - total : end]
            parts.append(
                _coefficients(row, replace(alone, logp=part, reference_logp=part), part, max_tokens=max_tokens)
            )
        return torch.cat(parts)
    tokens = Tokens(
        logp=logp,
        behavior_logp=logp,
        reference_logp=logp,
        advantage=row.credits(rollouts),
        sequence=rollouts.sequence,
        group=rollouts.sequence // size,
    )
    sizes = Denominators(groups=1, sequences=size, tokens=total, max_tokens=max_tokens, group_tokens=(total,) * groups)
    return row.coefficients(tokens, sizes)
