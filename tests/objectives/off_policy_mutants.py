"""Mutants of the rows for another policy's answers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from objective_cases import CASES
from ratio_mutants import centred, other_sign, turned, whole_group
from torch import Tensor

from gnomon.objectives import (
    Objective,
    OffPolicy,
    Penalty,
    Ratio,
    Tokens,
    capped,
    k1_in_return,
    leave_one_out,
    no_ratio,
    ppo_clip,
    probability_clip,
    raw,
    sequence_ratio,
    squared_log_ratio,
    squared_sequence_log_ratio,
    tapered,
    unclipped,
)

NAMES = ("dppo", "kimi_k15", "kimi_k15,ratio=token", "topr")
TIGHT = "dppo,clip_low=0.1,clip_high=0.3,cap=1.2"


def either_side(tokens: Tokens) -> Tensor:
    """A clip that does not look at the advantage."""
    moved = (tokens.logp.exp() - tokens.behavior_logp.exp()).abs()
    return torch.where(moved > 0.2, 0.0, 1.0) * capped(replace(tokens, proximal_logp=None), cap=20.0)


def by_ratio(tokens: Tokens) -> Tensor:
    """The band of the ratio for that of the probability."""
    from_behavior = replace(tokens, proximal_logp=None)
    return ppo_clip(from_behavior, low=0.2, high=0.2).clamp(max=20.0)


def without_weight(tokens: Tokens) -> Tensor:
    return (probability_clip(tokens, low=0.2, high=0.2, cap=20.0) > 0).to(tokens.logp.dtype)


def always_held(tokens: Tokens) -> Tensor:
    return sequence_ratio(tokens).clamp(max=1)


def held_by_token(tokens: Tokens) -> Tensor:
    return torch.where(tokens.advantage > 0, torch.ones_like(tokens.logp), unclipped(tokens).clamp(max=1))


def lowered_in_full(tokens: Tokens) -> Tensor:
    return torch.where(tokens.advantage > 0, torch.ones_like(tokens.logp), sequence_ratio(tokens))


RATIO_MUTANTS: dict[str, dict[str, Ratio]] = {
    "dppo": {
        "missing": no_ratio,
        "not clipped": partial(probability_clip, low=math.inf, high=math.inf, cap=20.0),
        "without a cap": partial(probability_clip, low=0.2, high=0.2, cap=math.inf),
        "clipped on either side": either_side,
        "clipped by ratio": by_ratio,
        "mask alone": without_weight,
        "around the proximal policy": lambda tokens: probability_clip(centred(tokens), low=0.2, high=0.2, cap=20.0),
        "inverted": lambda tokens: probability_clip(turned(tokens), low=0.2, high=0.2, cap=20.0),
        "sign of A mistaken": lambda tokens: probability_clip(other_sign(tokens), low=0.2, high=0.2, cap=20.0),
    },
    TIGHT: {
        "clip sides swapped": partial(probability_clip, low=0.3, high=0.1, cap=1.2),
        "masked above the cap": lambda tokens: (
            probability_clip(tokens, low=0.1, high=0.3, cap=1.2) * (tokens.logp - tokens.behavior_logp < math.log(1.2))
        ),
    },
    "topr": {
        "missing": no_ratio,
        "of all answers": sequence_ratio,
        "held for all answers": always_held,
        "of tokens": held_by_token,
        "not held": lowered_in_full,
        "inverted": lambda tokens: tapered(turned(tokens)),
        "sign of A mistaken": lambda tokens: tapered(other_sign(tokens)),
        "of the group": lambda tokens: tapered(whole_group(tokens)),
        "around the proximal policy": lambda tokens: tapered(centred(tokens)),
    },
}


def from_centre(tokens: Tokens) -> Tensor:
    return squared_sequence_log_ratio(centred(tokens))


PENALTY_MUTANTS: dict[str, dict[str, Penalty | None]] = {
    "kimi_k15": {
        "missing": None,
        "of tokens": squared_log_ratio,
        "of a reference": k1_in_return,
        "of the proximal policy": from_centre,
        "of the group": lambda tokens: squared_sequence_log_ratio(whole_group(tokens)),
        "pushes away": lambda tokens: -squared_sequence_log_ratio(tokens),
        "not halved": lambda tokens: 2 * squared_sequence_log_ratio(tokens),
    },
    "kimi_k15,ratio=token": {
        "missing": None,
        "of answers": squared_sequence_log_ratio,
        "of the proximal policy": lambda tokens: squared_log_ratio(centred(tokens)),
        "pushes away": lambda tokens: -squared_log_ratio(tokens),
        "not halved": lambda tokens: 2 * squared_log_ratio(tokens),
    },
}


def off_policy_mutants() -> Iterator[tuple[str, str, Objective]]:
    """What is wrong, of which case, and the row."""
    for name, ratios in RATIO_MUTANTS.items():
        for what, ratio in ratios.items():
            yield f"ratio: {what}", name, replace(CASES[name].row, ratio=ratio)
    for name, penalties in PENALTY_MUTANTS.items():
        for what, penalty in penalties.items():
            yield f"penalty: {what}", name, replace(CASES[name].row, penalty=penalty)
    for name in NAMES:
        row = CASES[name].row
        yield "baseline missing", name, replace(row, advantage=raw)
        yield "baseline of the others alone", name, replace(row, advantage=leave_one_out)
        for kind in OffPolicy:
            if kind is not row.off_policy:
                yield f"{kind} claimed", name, replace(row, off_policy=kind)
            if kind is not row.mismatch:
                yield f"{kind} claimed of the sampler", name, replace(row, mismatch=kind)
