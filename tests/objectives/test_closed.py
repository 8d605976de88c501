"""A closed form is missed where the shape beside it is met: a shape follows the row's own credit, right or wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import pytest
import torch
from objective_cases import CASES, FORMS, LOSSES, Case, Unclaimed, collect
from objective_checks import check_expectation
from torch import Tensor

from gnomon.objectives import (
    ClosedForm,
    Data,
    Denominators,
    FrozenShape,
    Law,
    Objective,
    Seen,
    SharedLength,
    Tokens,
    TokenShape,
    objective,
)
from gnomon.theory.exact import declared_gradient, moments
from gnomon.theory.world import correct, outcomes_for, world

SHAPED = [name for name in FORMS if isinstance(CASES[name].row.target, FrozenShape | SharedLength | TokenShape)]


PAIRS = ("clip_cov", "gepo", "tpo")
"""Rows whose closed form is known for groups of two."""


def size_for(row: Objective) -> int:
    return 2 if row.name in PAIRS else max(3, row.min_group)


def factor(length: int) -> float:
    return 1.1 / length


def by_length_once_more(tokens: Tokens, sizes: Denominators, *, row: Objective) -> Tensor:
    return row.aggregate(tokens, sizes) * 1.1 / tokens.lengths


class Frozen(FrozenShape):
    def shape(self, reward: float, length: int, law: Law, group: int, max_tokens: int) -> float:
        return factor(length) * FrozenShape.shape(self, reward, length, law, group, max_tokens)


class Shared(SharedLength):
    def shape(self, reward: float, length: int, law: Law, group: int, max_tokens: int) -> float:
        return factor(length) * SharedLength.shape(self, reward, length, law, group, max_tokens)


class ByToken(TokenShape):
    def shape(self, own: Seen, law: Sequence[tuple[Seen, float]], group: int, max_tokens: int) -> list[float]:
        return [factor(own.length) * h for h in TokenShape.shape(self, own, law, group, max_tokens)]


KINDS: dict[type, Any] = {FrozenShape: Frozen, SharedLength: Shared, TokenShape: ByToken}


def twisted(row: Objective) -> Objective:
    """Every rollout divided by its length once more and raised by a tenth, in the row and in its declared shape."""
    known = {field.name: getattr(row.target, field.name) for field in fields(row.target)}
    kind = KINDS.get(type(row.target))
    target = kind(**known) if kind else row.target
    return replace(row, aggregate=partial(by_length_once_more, row=row), target=target)


def missed(row: Objective) -> str:
    """What the check of the expectation says of a row, nothing where it is met."""
    case = Case(name=row.name, row=row, loss=CASES[row.name].loss)
    try:
        check_expectation(case, size_for(row), correct)
    except AssertionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", FORMS)
def test_a_row_that_is_wrong_as_its_shape_is_wrong_is_found_by_its_closed_form(name: str) -> None:
    row = twisted(CASES[name].row)
    if name in SHAPED:
        assert missed(replace(row, target=replace(row.target, closed=None))) == "", "the shape follows the row"
        assert "closed form" in missed(row)
    else:
        assert "misses its target" in missed(row)


SWAPPED = [
    ("grpo", "grpo,deviation=sample"),
    ("grpo,deviation=sample", "grpo"),
    ("gspo", "dapo"),
    ("dapo", "grpo"),
    ("cispo", "reinforce_pp"),
    ("reinforce_pp", "dapo"),
    ("gfpo,keep=2", "dapo"),
    ("gfpo,keep=2", "gfpo,by=efficiency,keep=2"),
    ("gfpo,by=efficiency,keep=2", "gfpo,keep=2"),
    ("seed_grpo", "seed_grpo,baseline=others"),
    ("seed_grpo,baseline=others", "seed_grpo"),
    ("seed_grpo", "seed_grpo,alpha=0.9,fade=exponential"),
    ("ppo", "ppo,gamma=0.9"),
    ("ppo", "turn_ppo"),
    ("ppo_whitened", "rebn"),
    ("rebn", "ppo_whitened"),
    ("turn_reinforce", "turn_reinforce,gamma=0.9,turns=discounted"),
    ("turn_reinforce", "turn_reinforce,gamma=0.9"),
    ("turn_grpo", "turn_grpo,compared=reached"),
    ("turn_grpo,compared=reached", "turn_grpo"),
    ("turn_grpo", "turn_grpo,compared=turns,gamma=0.5"),
    ("turn_grpo,compared=reached", "turn_grpo,compared=rewards,gamma=0.5"),
    ("brpo", "brpo,baseline=group"),
    ("brpo,baseline=group", "brpo"),
    ("reinforce_pp_loo", "reinforce_pp_loo,beta=0.2,scale=0.4"),
    ("reinforce_pp_loo", "reinforce_pp"),
    ("luffy_paper", "luffy_paper,gamma=0.3"),
    ("scale_rl", "grpo"),
]


@pytest.mark.parametrize(("claimed", "name"), SWAPPED)
def test_a_closed_form_is_that_of_no_other_row(claimed: str, name: str) -> None:
    row = CASES[name].row
    assert isinstance(row.target, FrozenShape | SharedLength | TokenShape)
    closed = CASES[claimed].row.closed_form
    assert isinstance(closed, ClosedForm)
    swapped = replace(row, target=replace(row.target, closed=closed))
    assert missed(row) == "" and "closed form" in missed(swapped)


CLOSED = {
    name: case.row.closed_form
    for name, case in CASES.items()
    if isinstance(case.row.closed_form, ClosedForm) and case.row.data is not Data.MIXED
}
"""The smaller world has none of the answers that are demonstrated."""


@pytest.mark.parametrize("name", CLOSED)
def test_every_case_meets_its_closed_form_in_a_world_of_two_tokens_too(name: str) -> None:
    """7 answers, with other chances and another length limit. Policy and reference are apart."""
    row, closed = CASES[name].row, CLOSED[name]
    place = world(1 if closed.one_token else 2)
    policy, group = place.anchor().flip(1), size_for(row)
    possible = outcomes_for(row, place, policy, correct)
    found = moments(row, place, policy=policy, behavior=policy, possible=possible, group=group).mean
    claim = declared_gradient(closed, place, policy=policy, possible=possible, group=group)
    assert torch.allclose(found, claim, rtol=0, atol=1e-9) and float(claim.abs().max()) > 1e-4


def test_a_shape_without_a_closed_form_fails_collection() -> None:
    def bare() -> Objective:
        row = objective("grpo")
        return replace(row, target=replace(row.target, closed=None))

    with pytest.raises(Unclaimed, match="holds for any credit"):
        collect({"grpo": bare}, LOSSES, {})


def test_a_closed_form_for_some_sizes_alone_says_so() -> None:
    row, place = objective("seed_grpo"), world()
    possible = outcomes_for(row, place, place.logits(), correct)
    assert row.closed_form is not None
    with pytest.raises(ValueError, match="groups of 4"):
        declared_gradient(row.closed_form, place, policy=place.logits(), possible=possible, group=4)
