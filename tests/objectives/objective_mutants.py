"""Rows with one thing wrong that still claim to be right. Each keeps the target and the textbook loss of its origin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial

import torch
from objective_cases import CASES, Case
from torch import Tensor

from gnomon.objectives import (
    Baseline,
    Denominators,
    Objective,
    OffPolicy,
    PolicyGradient,
    Singleton,
    Tokens,
    constant,
    k2,
    leave_one_out,
    mean_centred,
    no_correction,
    no_ratio,
    ppo_clip,
    raw,
    sequence_mean,
    sequence_sum,
    standardised,
    token_mean,
    truncated,
    unclipped,
)

ROWS = ("reinforce", "rloo", "grpo", "dr_grpo")
LOPSIDED = ("grpo,clip_low=0.1,clip_high=0.3", "dr_grpo,clip_low=0.1,clip_high=0.3")
CLIPPED = ("grpo", "dr_grpo")
ANCHORED = "grpo,reference_weight=0.3"
TRUNCATED = "dr_grpo truncated"


def of_advantage(row: Objective, change: Callable[[Tensor], Tensor]) -> Objective:
    return replace(row, advantage=lambda rewards: change(row.advantage(rewards)))


def of_weights(row: Objective, change: Callable[[Tensor, Tokens, Denominators], Tensor]) -> Objective:
    return replace(row, aggregate=lambda tokens, sizes: change(row.aggregate(tokens, sizes), tokens, sizes))


def sample_deviation(rewards: Tensor) -> Tensor:
    if rewards.shape[1] == 1:
        return torch.zeros_like(rewards)
    return mean_centred(rewards) / (rewards.std(dim=1, keepdim=True) + 1e-6)


def unguarded(rewards: Tensor) -> Tensor:
    centred = rewards - rewards.mean(dim=1, keepdim=True)
    return centred / centred.square().mean(dim=1, keepdim=True).sqrt()


def whole_batch(rewards: Tensor) -> Tensor:
    return rewards - rewards.mean()


def first_of_group(rewards: Tensor) -> Tensor:
    return rewards - rewards[:, :1]


def lenient_leave_one_out(rewards: Tensor) -> Tensor:
    return leave_one_out(rewards) if rewards.shape[1] > 1 else rewards.clone()


def both_sides(log_ratio: Tensor, advantage: Tensor) -> Tensor:
    ratio = log_ratio.exp()
    return torch.where((ratio > 1.2) | (ratio < 0.8), torch.zeros_like(ratio), ratio)


def clamped(log_ratio: Tensor, advantage: Tensor) -> Tensor:
    return log_ratio.exp().clamp(0.8, 1.2)


def wrong_sign(log_ratio: Tensor, advantage: Tensor) -> Tensor:
    return ppo_clip(log_ratio, -advantage, low=0.2, high=0.2)


def inverted(log_ratio: Tensor, advantage: Tensor) -> Tensor:
    return ppo_clip(-log_ratio, advantage, low=0.2, high=0.2)


def overflowing(log_ratio: Tensor, advantage: Tensor) -> Tensor:
    return ppo_clip(log_ratio, advantage, low=0.2, high=0.2) * (2 * log_ratio).exp() / (2 * log_ratio).exp()


def micro_batch(row: Objective) -> Objective:
    def local(tokens: Tokens, sizes: Denominators) -> Tensor:
        present = max(len(tokens.sequence.unique()), 1)
        here = Denominators(groups=1, sequences=present, tokens=len(tokens), max_tokens=sizes.max_tokens)
        return row.aggregate(tokens, here)

    return replace(row, aggregate=local)


def of_rollouts_with_tokens(weights: Tensor, tokens: Tokens, sizes: Denominators) -> Tensor:
    return weights * sizes.sequences / max(len(tokens.sequence.unique()), 1)


def per_group_length(tokens: Tokens, sizes: Denominators) -> Tensor:
    return 1 / (sizes.sequences * torch.bincount(tokens.group)[tokens.group]).to(tokens.logp.dtype)


def longest_here(tokens: Tokens, sizes: Denominators) -> Tensor:
    longest = max(torch.bincount(tokens.sequence).tolist(), default=1)
    return torch.full_like(tokens.logp, 1 / (sizes.sequences * longest))


class Attached(Objective):
    """A row that forgets to detach."""

    def coefficients(self, tokens: Tokens, denominators: Denominators) -> Tensor:
        return Objective.coefficients.__wrapped__(self, tokens, denominators)  # type: ignore[attr-defined]


def attached(row: Objective) -> Objective:
    return Attached(**{field.name: getattr(row, field.name) for field in fields(row)})


def mutants() -> dict[str, Case]:
    """Every mutant by name."""
    found: dict[str, Case] = {}

    def add(what: str, name: str, row: Objective) -> None:
        found[f"{name}: {what}"] = replace(CASES[name], row=row)

    for name in ROWS:
        row = CASES[name].row
        add("sign flipped", name, of_advantage(row, lambda a: -a))
        add("denominators of the micro-batch", name, micro_batch(row))
        add("divided by groups", name, of_weights(row, lambda w, t, d: w * d.sequences / d.groups))
        add("divided by the rollouts that have tokens", name, of_weights(row, of_rollouts_with_tokens))
        for aggregate in (sequence_sum, constant, sequence_mean, token_mean):
            if aggregate is not row.aggregate:
                add(f"aggregated by {aggregate.__name__}", name, replace(row, aggregate=aggregate))
    for name in ("rloo", *CLIPPED):
        add("baseline missing", name, replace(CASES[name].row, advantage=raw))
        add("baseline over the whole batch", name, replace(CASES[name].row, advantage=whole_batch))
        add("first rollout as baseline", name, replace(CASES[name].row, advantage=first_of_group))
    for name in ("reinforce", "rloo"):
        add("ratio added", name, replace(CASES[name].row, ratio=unclipped))
        add("baseline with itself in it", name, replace(CASES[name].row, advantage=mean_centred))
        add("token ratio claimed", name, replace(CASES[name].row, off_policy=OffPolicy.TOKEN))
    for name in CLIPPED:
        row = CASES[name].row
        for ratio in (no_ratio, unclipped, both_sides, clamped, wrong_sign, inverted, overflowing):
            add(f"ratio {ratio.__name__}", name, replace(row, ratio=ratio))
        add("blindness claimed", name, replace(row, off_policy=OffPolicy.ON_POLICY))
        add("singleton raw claimed", name, replace(row, singleton=Singleton.RAW))
        add("no baseline claimed", name, replace(row, baseline=Baseline.NONE))
        add("groups of one said to move it", name, replace(row, min_group=1))
        add("κ attached", name, attached(row))
        add("clip band too wide", name, replace(row, ratio=partial(ppo_clip, low=0.2, high=0.28)))
    for name in LOPSIDED:
        add("clip sides swapped", name, replace(CASES[name].row, ratio=partial(ppo_clip, low=0.3, high=0.1)))
    grpo, dr_grpo, rloo = CASES["grpo"].row, CASES["dr_grpo"].row, CASES["rloo"].row
    add("deviation missing", "grpo", replace(grpo, advantage=mean_centred))
    add("sample deviation", "grpo", replace(grpo, advantage=sample_deviation))
    add("epsilon too large", "grpo", replace(grpo, advantage=partial(standardised, epsilon=1e-4)))
    add("zero over zero", "grpo,epsilon=0.0", replace(CASES["grpo,epsilon=0.0"].row, advantage=unguarded))
    add("length of the group", "grpo", replace(grpo, aggregate=per_group_length))
    add("unbiased claimed", "grpo", replace(grpo, target=dr_grpo.target))
    add("deviation added", "dr_grpo", replace(dr_grpo, advantage=partial(standardised, epsilon=1e-6)))
    add("leave-one-out", "dr_grpo", replace(dr_grpo, advantage=leave_one_out))
    add("longest rollout for the limit", "dr_grpo", replace(dr_grpo, aggregate=longest_here))
    add("unit weight claimed", "dr_grpo", replace(dr_grpo, target=PolicyGradient(weight=lambda *_: 1.0, text="∇p")))
    add("group of one keeps its reward", "rloo", replace(rloo, advantage=lenient_leave_one_out))
    anchored = CASES[ANCHORED].row
    add("penalty pushes away", ANCHORED, replace(anchored, penalty_weight=-anchored.penalty_weight))
    add("penalty dropped", ANCHORED, replace(anchored, penalty=None))
    add("k2 for k3", ANCHORED, replace(anchored, penalty=k2))
    add("penalty reversed", ANCHORED, replace(anchored, penalty=lambda x: -x.expm1()))
    cut = CASES[TRUNCATED].row
    add("correction missing", TRUNCATED, replace(cut, correction=no_correction))
    add("correction inverted", TRUNCATED, replace(cut, correction=lambda x: truncated(-x, cap=2.0)))
    add("correction never truncated", TRUNCATED, replace(cut, correction=torch.exp))
    add("correction truncated from below", TRUNCATED, replace(cut, correction=lambda x: x.exp().clamp(min=2.0)))
    return found
