"""Mutants of the rows whose credit has a baseline of its own at every position."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from objective_cases import CASES
from token_mutants import of_credit, of_the_last, seeing
from torch import Tensor

from gnomon.objectives import (
    Advantage,
    Baseline,
    Objective,
    Rollouts,
    Singleton,
    length_centred,
    mean_centred,
    ppo_clip,
    terminal,
    token_mean,
)


def squared_probability_alone(rollouts: Rollouts) -> Rollouts:
    """1 + Σπ² where 1 − 2π + Σπ² stood."""
    assert rollouts.logp is not None
    return replace(rollouts, logp=torch.full_like(rollouts.logp, -torch.inf))


def no_collision(rollouts: Rollouts) -> Rollouts:
    assert rollouts.collision is not None
    return replace(rollouts, collision=2 * torch.ones_like(rollouts.collision))


def one_group(rollouts: Rollouts) -> Rollouts:
    shape = (1, -1)
    return replace(rollouts, rewards=rollouts.rewards.reshape(shape), lengths=rollouts.lengths.reshape(shape))


def tail_as_alone(credit: Tensor, rollouts: Rollouts) -> Tensor:
    """Nothing on the tail of the longest rollout, where its own reward was the baseline."""
    lengths = rollouts.lengths
    place = torch.cat([torch.arange(n) for n in lengths.flatten().tolist()]) if len(credit) else credit
    second = lengths.topk(2, dim=1).values[:, 1:] if lengths.shape[1] > 1 else torch.zeros_like(lengths)
    return torch.where(place < rollouts.spread(second.expand_as(lengths)), credit, 0.0)


def plain_mean(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    return rollouts.spread(mean_centred(rollouts.rewards))


def position_mutants() -> Iterator[tuple[str, str, Objective]]:
    """What is wrong, of which case, and the row."""
    for name in ("otb", "otb,baseline=others"):
        row = CASES[name].row
        for change in (squared_probability_alone, no_collision, one_group):
            yield change.__name__, name, seeing(row, change)
        yield "nothing on the tail", name, of_credit(row, tail_as_alone)
        yield "baseline of the last token on all", name, of_credit(row, of_the_last)
        yield "baseline missing", name, replace(row, credit=terminal)
        for wrong in (plain_mean, length_centred):
            yield wrong.__name__, name, replace(row, credit=wrong)
        yield "mean over all tokens", name, replace(row, aggregate=token_mean)
        yield "a clip", name, replace(row, ratio=lambda tokens: ppo_clip(tokens, low=0.2, high=0.2))
        yield "a baseline claimed", name, replace(row, baseline=Baseline.GROUP)
        yield "nothing of a group of one claimed", name, replace(row, singleton=Singleton.ZERO)
        yield "whole groups only claimed", name, replace(row, min_group=2)
    own, others = CASES["otb"].row, CASES["otb,baseline=others"].row
    yield "itself left out", "otb", replace(own, credit=others.credit)
    yield "itself in the mean", "otb,baseline=others", replace(others, credit=own.credit)
    yield "the policy gradient claimed", "otb", replace(own, target=others.target)
    yield "the bent one claimed", "otb,baseline=others", replace(others, target=own.target)
