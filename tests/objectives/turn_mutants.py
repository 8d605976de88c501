"""Mutants of the rows whose credit differs from turn to turn, or between the slices of a budget."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from objective_cases import CASES
from token_mutants import of_credit, of_the_last, seeing, with_values
from torch import Tensor

from gnomon.objectives import (
    Advantage,
    Baseline,
    Objective,
    Rollouts,
    Singleton,
    discounted_turn_returns,
    gae,
    leave_one_out,
    mean_centred,
    raw,
    sequence_mean,
    standardise,
    standardised_turn_returns,
    token_mean,
    turn_gae,
    turn_returns,
    whiten,
)

USUAL, GAE = "turn_reinforce,gamma=0.9", "turn_ppo,gamma=0.9,lam=0.7"
NORMED = "rebn,gamma=0.9,epsilon=0.1"
COMPARED = ("turn_grpo,compared=reached", "turn_grpo,compared=turns,gamma=0.5", "turn_grpo,compared=rewards,gamma=0.5")


def one_turn(rollouts: Rollouts) -> Rollouts:
    """Every turn of a rollout taken for the first."""
    assert rollouts.segment is not None
    return replace(rollouts, segment=torch.zeros_like(rollouts.segment))


def tokens_for_turns(rollouts: Rollouts) -> Rollouts:
    """Every token a turn of its own, paid what its turn is paid."""
    assert rollouts.segment is not None and rollouts.segment_rewards is not None
    lengths = rollouts.lengths.flatten()
    start = lengths.cumsum(0) - lengths
    place = torch.arange(len(rollouts.sequence)) - start[rollouts.sequence]
    longest = max(1, int(lengths.max()))
    paid = rollouts.segment_rewards
    more = paid[..., -1:].expand(*paid.shape[:2], max(0, longest - paid.shape[2]))
    return replace(rollouts, segment=place, segment_rewards=torch.cat([paid, more], dim=2))


def reward_at_the_end(rollouts: Rollouts) -> Rollouts:
    return replace(rollouts, segment_rewards=None)


def shifted_rewards(rollouts: Rollouts) -> Rollouts:
    """The reward of each turn paid one turn late."""
    assert rollouts.segment_rewards is not None
    return replace(rollouts, segment_rewards=rollouts.segment_rewards.roll(1, dims=2))


def value_of_the_last_token(rollouts: Rollouts) -> Rollouts:
    """The critic read as a turn ends."""
    assert rollouts.segment is not None and rollouts.values is not None
    key = rollouts.sequence * 10 + rollouts.segment
    last = torch.tensor([int((key == k).nonzero().max()) for k in key.tolist()], dtype=torch.int64)
    return replace(rollouts, values=rollouts.values[last])


def rewards_never_reached(rollouts: Rollouts, advantage: Advantage, *, gamma: float) -> Tensor:
    """Turns paid for that a rollout ended before."""
    assert rollouts.segment is not None and rollouts.segment_rewards is not None
    table = rollouts.segment_rewards.flatten(0, 1)
    turns = range(table.shape[1])
    weights = torch.tensor([[gamma ** (k - t) if k >= t else 0.0 for t in turns] for k in turns], dtype=table.dtype)
    return (table @ weights)[rollouts.sequence, rollouts.segment]


def earned_so_far(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """What a rollout earned before each turn and in it."""
    assert rollouts.segment is not None and rollouts.segment_rewards is not None
    return rollouts.segment_rewards.flatten(0, 1).cumsum(1)[rollouts.sequence, rollouts.segment]


def per_token(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """Turns weighed by their tokens in mean and deviation."""
    returns = turn_returns(rollouts, advantage, gamma=0.9)
    if not len(returns):
        return returns
    return (returns - returns.mean()) / ((returns - returns.mean()).square().mean().sqrt() + 0.1)


def not_centred(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    credit = turn_returns(rollouts, advantage, gamma=1.0)
    return credit / (float((credit - credit.mean()).square().mean().sqrt()) + 1e-9) if len(credit) else credit


def budget(
    rollouts: Rollouts,
    advantage: Advantage,
    *,
    base: float = 2.0,
    own: bool = True,
    others: bool = True,
    tail: bool = True,
    peeks: bool = False,
    kept: bool = False,
) -> Tensor:
    """BRPO token by token, with one thing that can be left out or put wrong at a time."""
    assert rollouts.segment is not None and rollouts.segment_rewards is not None
    groups, size, budgets = rollouts.segment_rewards.shape
    scores = rollouts.segment_rewards.flatten(0, 1)
    found = []
    for y, j in zip(rollouts.sequence.tolist(), rollouts.segment.tolist(), strict=True):
        start = j if tail else 0
        to_come = scores[:, start:].sum(1) / budgets
        among = advantage(to_come.reshape(groups, size)).flatten()[y] if others else to_come[y]
        past = scores[y, : j + peeks]
        weight = base ** torch.arange(len(past), dtype=scores.dtype)
        known = float((past * weight).sum() / weight.sum()) if len(past) else 0.0
        known *= 1.0 if kept else (budgets - j) / budgets
        share = j / budgets
        found.append(share * (to_come[y] - known * own) + (1 - share) * among)
    return torch.stack(found) if found else scores.new_zeros(0)


def turn_mutants() -> Iterator[tuple[str, str, Objective]]:
    """What is wrong, of which case, and the row."""
    by_turn = (
        "turn_reinforce",
        USUAL,
        "turn_reinforce,gamma=0.9,turns=discounted",
        "turn_grpo",
        *COMPARED,
        GAE,
        "rebn",
        NORMED,
    )
    for name in (*by_turn, "brpo", "brpo,baseline=group"):
        row = CASES[name].row
        yield "credit of the last token on all", name, of_credit(row, of_the_last)
        yield "one turn", name, seeing(row, one_turn)
        yield "a turn to a token", name, seeing(row, tokens_for_turns)
        yield "rewards one turn late", name, seeing(row, shifted_rewards)
        yield "mean over all tokens", name, replace(row, aggregate=token_mean)
        yield "mean over own tokens", name, replace(row, aggregate=sequence_mean)
        if not name.startswith("brpo"):
            yield "all rewards at the end", name, seeing(row, reward_at_the_end)
        if not name.startswith(("brpo", "turn_grpo")):
            yield "mean of the group taken off", name, replace(row, advantage=mean_centred)
        if row.min_group == 1:
            yield "whole groups only claimed", name, replace(row, min_group=2)
            yield "pairs of rollouts only claimed", name, replace(row, min_rollouts=2)
    row, started = CASES[USUAL].row, CASES["turn_reinforce,gamma=0.9,turns=discounted"].row
    yield "no discount", USUAL, replace(row, credit=partial(turn_returns, gamma=1.0))
    yield "discounted from the start", USUAL, replace(row, credit=partial(discounted_turn_returns, gamma=0.9))
    yield "the gradient of the discounted return claimed", USUAL, replace(row, target=started.target)
    yield "turns never reached", USUAL, replace(row, credit=partial(rewards_never_reached, gamma=0.9))
    yield "what is past", USUAL, replace(row, credit=earned_so_far)
    yield "a baseline claimed", USUAL, replace(row, baseline=Baseline.GROUP)
    name = "turn_reinforce,gamma=0.9,turns=discounted"
    yield "discounted to the turn alone", name, replace(started, credit=partial(turn_returns, gamma=0.9))
    yield "the usual form claimed", name, replace(started, target=row.target)
    for name in ("turn_grpo", *COMPARED):
        row = CASES[name].row
        yield "nothing taken off", name, replace(row, advantage=raw)
        yield "no baseline claimed", name, replace(row, baseline=Baseline.NONE)
        for other in ("turn_grpo", *COMPARED):
            if other != name:
                yield f"compared as {other}", name, replace(row, credit=CASES[other].row.credit)
                yield f"the target of {other}", name, replace(row, target=CASES[other].row.target)
    row = CASES[GAE].row
    yield "over tokens", GAE, replace(row, credit=partial(gae, gamma=0.9, lam=0.7))
    yield "λ of one", GAE, replace(row, credit=partial(turn_gae, gamma=0.9, lam=1.0))
    yield "γ and λ swapped", GAE, replace(row, credit=partial(turn_gae, gamma=0.7, lam=0.9))
    yield "critic read as turns end", GAE, seeing(row, value_of_the_last_token)
    yield "critic added", GAE, seeing(row, lambda seen: with_values(seen, torch.neg))
    yield "critic not asked", GAE, seeing(row, lambda seen: with_values(seen, torch.zeros_like))
    yield "exactness claimed", GAE, replace(row, target=CASES["turn_ppo"].row.target)
    yield "no critic claimed", GAE, replace(row, baseline=Baseline.NONE)
    row = CASES[NORMED].row
    yield "weighed by tokens", NORMED, replace(row, credit=per_token)
    yield "no discount", NORMED, replace(row, credit=partial(standardised_turn_returns, gamma=1.0, epsilon=0.1))
    yield "epsilon forgotten", NORMED, replace(row, credit=partial(standardised_turn_returns, gamma=0.9, epsilon=0.0))
    yield "sample deviation", NORMED, replace(row, credit=by_sample)
    plain = CASES["rebn"].row
    yield "not centred", "rebn", replace(plain, credit=not_centred)
    yield "whitened over tokens", "rebn", replace(plain, credit=white_over_tokens)
    yield "no baseline claimed", "rebn", replace(plain, baseline=Baseline.NONE)
    yield "singleton raw claimed", "rebn", replace(plain, singleton=Singleton.RAW)
    yield "standardised by group and place", "rebn", replace(plain, advantage=partial(standardise, epsilon=1e-6))
    brpo, released = CASES["brpo"].row, CASES["brpo,baseline=group"].row
    for name, row in (("brpo", brpo), ("brpo,baseline=group", released)):
        for what, credit in {
            "past scores weighed alike": partial(budget, base=1.0),
            "early scores weighed most": partial(budget, base=0.5),
            "own past not taken off": partial(budget, own=False),
            "the others not taken off": partial(budget, others=False),
            "budgets that are past": partial(budget, tail=False),
            "own score of now taken off": partial(budget, peeks=True),
            "past scores kept whole": partial(budget, kept=True),
        }.items():
            yield what, name, replace(row, credit=credit)
    yield "itself in the mean", "brpo", replace(brpo, advantage=mean_centred)
    yield "baseline missing", "brpo", replace(brpo, advantage=raw)
    yield "the released form claimed", "brpo", replace(brpo, target=released.target)
    yield "leave-one-out", "brpo,baseline=group", replace(released, advantage=leave_one_out)
    yield "no baseline claimed", "brpo", replace(brpo, baseline=Baseline.NONE)


def by_sample(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """Over T − 1 turns; turns are told from tokens by their place."""
    assert rollouts.segment is not None
    returns = turn_returns(rollouts, advantage, gamma=0.9)
    key = (rollouts.sequence * 10 + rollouts.segment).tolist()
    turns = torch.tensor([float(returns[key.index(k)]) for k in dict.fromkeys(key)], dtype=returns.dtype)
    if len(turns) < 2:
        return torch.zeros_like(returns)
    return (returns - turns.mean()) / (turns.std() + 0.1)


def white_over_tokens(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    return whiten(turn_returns(rollouts, advantage, gamma=1.0), epsilon=1e-18)
