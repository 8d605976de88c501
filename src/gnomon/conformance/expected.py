"""The gradient that an objective declares for a batch, and those of readings and faults that it may be mistaken for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from gnomon.conformance.batch import END, Batch, Row
from gnomon.conformance.policy import Policy
from gnomon.objectives import advantages, aggregate, penalties
from gnomon.objectives.credit import terminal
from gnomon.objectives.row import Aggregate, Objective, Penalty, Scope
from gnomon.objectives.tokens import Denominators, Tokens

__all__ = ["Reading", "expected_gradient", "readings_of", "variants"]

Kept = Callable[[Row], Sequence[int]]
"""1 for each token of a completion that the loss has."""


def without_first(row: Row) -> Sequence[int]:
    return (0, *row.sampled_ids[1:])


def sampled_mask(row: Row) -> Sequence[int]:
    return row.sampled_ids


def every(row: Row) -> Sequence[int]:
    return (1,) * len(row.completion)


def without_end(row: Row) -> Sequence[int]:
    return tuple(int(keep and token != END) for keep, token in zip(row.sampled_ids, row.completion, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One way to compute the gradient of a step."""

    text: str
    """How it differs from the row; empty where it does not."""
    row: Objective
    mask: Kept = sampled_mask
    by_turn: bool = False
    """Whether the rewards of the rollouts that reach a turn are compared among themselves."""
    failed: float | None = None
    """The reward of a rollout that could not be judged. None: it is left out of its group."""
    temperature: bool = True
    counted: bool = True
    """Whether a truncated rollout that the loss leaves out still counts in the number of rollouts."""
    masks_truncated: bool = True
    longer: bool = False
    """Whether the tokens of a failed rollout count in the tokens of the step."""
    penalty: Penalty = penalties.k3
    penalised_reward: bool = False
    """Whether the penalty is taken off the rewards."""
    scale: float = 1.0
    whole_groups: bool = False
    """Whether a group with a failed rollout is left out as a whole."""


def expected_gradient(policy: Policy, reading: Reading, batch: Batch, reference: Policy) -> Tensor:
    """[parameters] the gradient of the maximised objective of a step."""
    if reading.penalised_reward:
        batch, reading = penalise(policy, batch, reference), replace(reading, penalised_reward=False)
    rows = list(batch.rows)
    broken = [
        reading.whole_groups and any(row.reward is None for row in group) for group in batch.groups for _ in group
    ]
    loss_masks = [reading.mask(row) for row in rows]
    if batch.mask_truncated and reading.masks_truncated:
        loss_masks = [
            (0,) * len(row.completion) if row.truncated else keep for row, keep in zip(rows, loss_masks, strict=True)
        ]
    masks = [
        torch.tensor(keep).bool() & (row.reward is not None or reading.failed is not None) & (not gone)
        for row, keep, gone in zip(rows, loss_masks, broken, strict=True)
    ]
    temperature = batch.temperature if reading.temperature else 1.0
    logp = [policy.logp(row, temperature)[keep] for row, keep in zip(rows, masks, strict=True)]
    sequence = torch.repeat_interleave(torch.tensor([len(each) for each in logp]))
    owner = torch.tensor([index for index, group in enumerate(batch.groups) for _ in group])
    now = torch.cat(logp)
    old = torch.cat([
        torch.tensor(row.behavior_logp, dtype=torch.float64)[keep] if row.behavior_logp else each
        for row, keep, each in zip(rows, masks, logp, strict=True)
    ])  # fmt: skip
    anchor = torch.cat([reference.logp(row, temperature)[keep] for row, keep in zip(rows, masks, strict=True)])
    tokens = Tokens(
        logp=now, behavior_logp=old, proximal_logp=old, reference_logp=anchor,
        advantage=credit(reading, batch, masks), sequence=sequence, group=owner[sequence],
    )  # fmt: skip
    counted = len(rows) if reading.counted else sum(1 for keep in masks if keep.any())
    unjudged = sum(sum(keep) for row, keep in zip(rows, loss_masks, strict=True) if row.reward is None)
    total = len(now) + (unjudged if reading.longer else 0)
    sizes = Denominators(
        groups=len(batch.groups), sequences=counted, tokens=total, max_tokens=batch.max_tokens,
        group_tokens=tuple(torch.bincount(owner[sequence], minlength=len(batch.groups)).tolist()),
    )  # fmt: skip
    row = replace(reading.row, penalty=reading.penalty, penalty_weight=batch.kl) if batch.kl else reading.row
    scores = torch.cat([policy.scores(row, temperature)[keep] for row, keep in zip(rows, masks, strict=True)])
    return reading.scale * row.coefficients(tokens, sizes) @ scores


def penalise(policy: Policy, batch: Batch, reference: Policy) -> Batch:
    """The same step with log π/π_ref of each whole completion, times the weight, taken off its reward."""

    def less(row: Row) -> Row:
        apart = float((policy.logp(row) - reference.logp(row)).sum())
        return replace(row, reward=None if row.reward is None else row.reward - batch.kl * apart)

    return replace(batch, kl=0.0, groups=tuple(tuple(map(less, group)) for group in batch.groups))


def credit(reading: Reading, batch: Batch, masks: Sequence[Tensor]) -> Tensor:
    """[tokens] the advantage of every token that the loss has. Raises: NotImplementedError where no paper has one."""
    if reading.row.scope is Scope.STEP:
        if any(row.reward is None for row in batch.rows):
            raise NotImplementedError("not tested: a failed rollout where rewards are compared over the whole step")
        matrix = torch.tensor([[row.reward for row in group] for group in batch.groups], dtype=torch.float64)
        each = list(reading.row.advantage(matrix).flatten())
        return torch.cat([value.expand(int(keep.sum())) for value, keep in zip(each, masks, strict=True)])
    credits, start = [], 0
    for group in batch.groups:
        turns = [turn_of(row) if reading.by_turn else torch.zeros(len(row.completion)).long() for row in group]
        group_rewards = [row.reward if row.reward is not None else reading.failed for row in group]
        per_row = [torch.zeros(len(row.completion), dtype=torch.float64) for row in group]
        for turn in range(1 + max(int(each.max()) for each in turns)):
            there = [i for i, each in enumerate(turns) if (each == turn).any() and group_rewards[i] is not None]
            if len(there) < reading.row.min_group:
                continue
            rewards = torch.tensor([[group_rewards[i] for i in there]], dtype=torch.float64)
            for i, value in zip(there, reading.row.advantage(rewards)[0], strict=True):
                per_row[i] = torch.where(turns[i] == turn, value, per_row[i])
        credits += [values[keep] for values, keep in zip(per_row, masks[start : start + len(group)], strict=True)]
        start += len(group)
    return torch.cat(credits)


def turn_of(row: Row) -> Tensor:
    """[tokens] the turn of each: one begins after the tokens of a tool."""
    mask = torch.tensor(row.sampled_ids)
    begins = (mask == 1) & (mask.roll(1) == 0)
    begins[0] = False
    return begins.long().cumsum(0)


SAMPLE = "the standard deviation is that of a sample (over N−1), the paper does not say which"


def readings_of(row: Objective) -> list[Reading]:
    """The readings of a row that its source allows, the row itself first."""
    if row.credit is not terminal or row.needs:
        raise ValueError(f"conform compares rows that need only rewards and log-probabilities, and {row.name} does not")
    readings = [Reading(text="", row=row)]
    if is_standardised(row.advantage):
        for epsilon in (1e-4, 1e-5, 1e-6, 1e-8):
            readings.append(Reading(text=f"ε = {epsilon:g}", row=replace(row, advantage=population(epsilon))))
            readings.append(Reading(text=f"{SAMPLE}; ε = {epsilon:g}", row=replace(row, advantage=sample(epsilon))))
    return readings


def is_standardised(advantage: Callable[[Tensor], Tensor]) -> bool:
    standard = (advantages.standardise, advantages.sample_standardised)
    return isinstance(advantage, partial) and advantage.func in standard


def population(epsilon: float) -> partial[Tensor]:
    return partial(advantages.standardise, epsilon=epsilon)


def sample(epsilon: float) -> partial[Tensor]:
    return partial(advantages.sample_standardised, epsilon=epsilon)


def last_alone(advantage: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def only(rewards: Tensor) -> Tensor:
        values = advantage(rewards)
        return torch.cat([torch.zeros_like(values[:, :-1]), values[:, -1:]], dim=1)

    return only


def over_step(rewards: Tensor) -> Tensor:
    return rewards - rewards.mean()


def negative(advantage: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda rewards: -advantage(rewards)


ADVANTAGES: dict[str, Callable[[Tensor], Tensor]] = {
    "the advantage is the reward, without a baseline": advantages.raw,
    "the advantage is not divided by the standard deviation": advantages.mean_centred,
    "the baseline is the mean of the other rollouts": advantages.leave_one_out,
    "the advantage is divided by the standard deviation of the group (over N)": population(1e-4),
    "the advantage is divided by the standard deviation of the group (over N−1)": sample(1e-4),
}
OVER_STEP = "rewards are compared with the mean of the whole step"
AGGREGATES: dict[str, Aggregate] = {
    "each rollout is divided by its own length": aggregate.sequence_mean,
    "the sum is divided by all tokens of the step": aggregate.token_mean,
    "the sum is divided by the length limit": aggregate.constant,
    "the sum over a rollout is not divided by a length": aggregate.sequence_sum,
}
KEPT: dict[str, Kept] = {
    "": sampled_mask,
    "the end token is not in the loss": without_end,
    "the first token is not in the loss": without_first,
    "the tokens of tools are trained": every,
}


def variants(reading: Reading) -> list[tuple[int, Reading]]:
    """What a gradient may be instead, with the number of changes: other advantages, divisions and masks."""
    row = reading.row
    credits = {"": row.advantage, **ADVANTAGES, OVER_STEP: over_step}
    for text, change in (
        ("only the last rollout of each group has an advantage", last_alone),
        ("its sign is reversed", negative),
    ):
        credits[text] = change(row.advantage)
    readings = []
    for masked, keep in KEPT.items():
        for divided, share in {"": row.aggregate, **AGGREGATES}.items():
            for credited, advantage in credits.items():
                changes = [text for text in (credited, divided, masked) if text]
                scope = Scope.STEP if credited == OVER_STEP else row.scope
                variant = replace(row, advantage=advantage, aggregate=share, scope=scope)
                readings.append((len(changes), replace(reading, text="; ".join(changes), row=variant, mask=keep)))
    return readings
