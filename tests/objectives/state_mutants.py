"""Mutants of the rows whose credit compares turns that reply to the same observation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from objective_cases import CASES
from token_mutants import of_credit, of_the_last, seeing
from turn_mutants import one_turn, reward_at_the_end, shifted_rewards

from gnomon.objectives import (
    Baseline,
    Objective,
    Rollouts,
    Singleton,
    history_centred,
    leave_one_out,
    mean_centred,
    raw,
    sequence_mean,
    state_centred,
    terminal,
    token_mean,
)

STATES, PASTS = "gigpo,gamma=0.5,weight=0.3", "hgpo,gamma=0.5,history=1,alpha=2.0"


def one_state(rollouts: Rollouts) -> Rollouts:
    assert rollouts.observation is not None
    return replace(rollouts, observation=torch.zeros_like(rollouts.observation))


def state_of_the_step(rollouts: Rollouts) -> Rollouts:
    """Turns compared over all groups."""
    shape = (1, -1)
    return replace(
        rollouts,
        rewards=rollouts.rewards.reshape(shape),
        lengths=rollouts.lengths.reshape(shape),
        segment_rewards=rollouts.segment_rewards.reshape(1, -1, rollouts.segment_rewards.shape[2]),  # type: ignore[union-attr]
    )


def state_of_the_turn(rollouts: Rollouts) -> Rollouts:
    """Turns compared by their number."""
    return replace(rollouts, observation=rollouts.segment)


def state_of_the_rollout(rollouts: Rollouts) -> Rollouts:
    """Turns compared with those of their own rollout."""
    assert rollouts.observation is not None
    return replace(rollouts, observation=rollouts.observation + 10 * rollouts.sequence)


def state_mutants() -> Iterator[tuple[str, str, Objective]]:
    """What is wrong, of which case, and the row."""
    for name in ("gigpo", STATES, "hgpo", PASTS):
        row = CASES[name].row
        for change in (one_state, state_of_the_step, state_of_the_turn, state_of_the_rollout):
            yield change.__name__, name, seeing(row, change)
        for change in (one_turn, reward_at_the_end, shifted_rewards):
            yield change.__name__, name, seeing(row, change)
        yield "credit of the last token on all", name, of_credit(row, of_the_last)
        yield "of rollouts alone", name, replace(row, credit=terminal, advantage=mean_centred)
        yield "mean over all tokens", name, replace(row, aggregate=token_mean)
        yield "mean over own tokens", name, replace(row, aggregate=sequence_mean)
        yield "whole groups only claimed", name, replace(row, min_group=2)
        yield "no baseline claimed", name, replace(row, baseline=Baseline.NONE)
        yield "singleton raw claimed", name, replace(row, singleton=Singleton.RAW)
    row = CASES[STATES].row
    yield "no discount", STATES, replace(row, credit=partial(state_centred, gamma=1.0, weight=0.3))
    yield "another weight", STATES, replace(row, credit=partial(state_centred, gamma=0.5, weight=1.0))
    yield "states alone", STATES, replace(row, advantage=torch.zeros_like)
    yield "rollouts not centred", STATES, replace(row, advantage=raw)
    yield "leave-one-out", STATES, replace(row, advantage=leave_one_out)
    yield "the past claimed", STATES, replace(row, target=CASES[PASTS].row.target)
    row = CASES[PASTS].row
    for what, options in {
        "no discount": {"gamma": 1.0, "history": 1, "alpha": 2.0},
        "the last observation alone": {"gamma": 0.5, "history": 0, "alpha": 2.0},
        "more of the past": {"gamma": 0.5, "history": 2, "alpha": 2.0},
        "all alike": {"gamma": 0.5, "history": 1, "alpha": 0.0},
    }.items():
        yield what, PASTS, replace(row, credit=partial(history_centred, **options))
    yield "states claimed", PASTS, replace(row, target=CASES[STATES].row.target)
