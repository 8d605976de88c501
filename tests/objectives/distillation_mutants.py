"""Mutants of the rows that learn from a teacher."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch
from objective_cases import CASES
from torch import Tensor

from gnomon.objectives import (
    Advantage,
    Noise,
    Objective,
    OffPolicy,
    Rewards,
    Rollouts,
    Singleton,
    leave_one_out,
    no_ratio,
    ppo_clip,
    raw,
    reward_to_go,
    toward_reference,
)

NAMES = ("opd", "opd,credit=answer", "opsd")
CREDITS: dict[str, Callable[[Rollouts, Advantage], Tensor]] = {
    "discounted": partial(toward_reference, gamma=0.9),
    "away from the teacher": partial(reward_to_go, beta=-1.0),
    "the advantage beside it": partial(reward_to_go, beta=1.0),
}
OTHER = {"opd": 1.0, "opd,credit=answer": 0.0, "opsd": 1.0}
"""γ of the other form."""


def seen_as(row: Objective, change: Callable[[Rollouts], Rollouts]) -> Objective:
    return replace(row, credit=lambda rollouts, advantage: row.credit(change(rollouts), advantage))


def probabilities(rollouts: Rollouts) -> Rollouts:
    assert rollouts.logp is not None and rollouts.reference_logp is not None
    return replace(rollouts, logp=rollouts.logp.exp(), reference_logp=rollouts.reference_logp.exp())


def teacher_alone(rollouts: Rollouts) -> Rollouts:
    assert rollouts.logp is not None
    return replace(rollouts, logp=torch.zeros_like(rollouts.logp))


def one_stream(rollouts: Rollouts) -> Rollouts:
    """The tokens of all rollouts of a step as if they were one."""
    total = int(rollouts.lengths.sum())
    return replace(rollouts, lengths=torch.tensor([[total]]), rewards=rollouts.rewards[:1, :1])


def clipped(row: Objective) -> Objective:
    def change(rollouts: Rollouts, advantage: Advantage) -> Tensor:
        return row.credit(rollouts, advantage).clamp(-0.5, 0.5)

    return replace(row, credit=change)


def whole_answer(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """The log-ratio of the whole answer on each of its tokens: the same mean, and another textbook loss."""
    assert rollouts.logp is not None and rollouts.reference_logp is not None
    ahead = rollouts.reference_logp - rollouts.logp
    total = torch.zeros(rollouts.rewards.numel(), dtype=ahead.dtype).index_add(0, rollouts.sequence, ahead)
    return total[rollouts.sequence]


def distillation_mutants() -> Iterator[tuple[str, str, Objective]]:
    """What is wrong, of which case, and the row."""
    for name in NAMES:
        row = CASES[name].row
        for what, credit in CREDITS.items():
            yield what, name, replace(row, credit=credit)
        yield "the other form", name, replace(row, credit=partial(toward_reference, gamma=OTHER[name]))
        yield "the target of the other form", name, replace(row, target=CASES[others(name)].row.target)
        yield "the likelihood under the teacher alone", name, seen_as(row, teacher_alone)
        yield "probabilities", name, seen_as(row, probabilities)
        yield "credit clipped", name, clipped(row)
        yield "rewards weighed", name, replace(row, advantage=raw)
        yield "baseline", name, replace(row, advantage=leave_one_out)
        yield "ratio missing", name, replace(row, ratio=no_ratio)
        yield "ratio clipped", name, replace(row, ratio=partial(ppo_clip, low=0.2, high=0.2))
        yield "blindness claimed", name, replace(row, off_policy=OffPolicy.ON_POLICY)
        yield "whole answers claimed", name, replace(row, off_policy=OffPolicy.SEQUENCE)
        yield "correction claimed", name, replace(row, mismatch=OffPolicy.TOKEN)
        yield "rewards claimed", name, replace(row, rewards=Rewards.REAL)
        yield "raw singleton claimed", name, replace(row, singleton=Singleton.RAW)
        yield "stillness under noise claimed", name, replace(row, noise=Noise.STILL)
        yield "groups of two needed", name, replace(row, min_group=2)
        yield "no teacher asked for", name, replace(row, needs=frozenset())
    row = CASES["opd,credit=answer"].row
    yield "into the next rollout", "opd,credit=answer", replace(row, credit=in_one_stream)
    yield "the whole answer", "opd,credit=answer", replace(row, credit=whole_answer)


def in_one_stream(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    return toward_reference(one_stream(rollouts), torch.ones_like, gamma=1.0)


def others(name: str) -> str:
    return "opd" if name == "opd,credit=answer" else "opd,credit=answer"
