"""Looking a row up by name, and what a row says about itself."""

from __future__ import annotations

import functools
import importlib
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from objective_cases import CASES, FORMS
from objective_steps import EDGE_STEPS

import gnomon.objectives as public
from gnomon.objectives import TABLE, Denominators, Reach, Tokens, grpo, objective, penalties, ratios, reaches


def test_a_row_by_name_is_the_row_by_function() -> None:
    step = EDGE_STEPS["clip edges"]
    by_name, by_function = objective("grpo", clip_high=0.28), grpo(clip_high=0.28)
    pairs = [row.coefficients(step.tokens(row), step.denominators()) for row in (by_name, by_function)]
    assert torch.equal(*pairs)
    default = objective("grpo")
    assert not torch.equal(pairs[0], default.coefficients(step.tokens(default), step.denominators()))


@pytest.mark.parametrize("name", FORMS)
def test_a_row_survives_pickling(name: str) -> None:
    row, step = CASES[name].row, EDGE_STEPS["mixed"]
    again = pickle.loads(pickle.dumps(row))
    sizes = step.denominators()
    assert torch.equal(again.coefficients(step.tokens(again), sizes), row.coefficients(step.tokens(row), sizes))
    assert again.name == row.name and again.target.text == row.target.text


@pytest.mark.parametrize("name", FORMS)
def test_a_row_says_where_it_comes_from(name: str) -> None:
    row = CASES[name].row
    assert row.source and row.equation.startswith("κ = ") and "\n" not in row.equation


@pytest.mark.parametrize("name", FORMS)
def test_a_row_declares_which_tokens_its_coefficients_depend_on(name: str) -> None:
    """One that declares none has that of the step; these need it."""
    assert (CASES[name].row.reach is Reach.STEP) == (name in {"bapo", "clip_cov", "m2po", "online_kto", "online_orpo"})


def test_a_function_that_declares_no_reach_needs_the_whole_step() -> None:
    """Also where it wraps one that does: what it does with the tokens before is not known."""

    @functools.wraps(ratios.ppo_clip)
    def mine(tokens: Tokens, *, low: float, high: float) -> torch.Tensor:
        return ratios.ppo_clip(tokens, low=low, high=high)

    row = grpo()
    assert row.reach is Reach.TOKEN
    for part in (mine, functools.partial(mine, low=0.2, high=0.2)):
        assert replace(row, ratio=part).reach is Reach.STEP
    assert replace(row, ratio=reaches(Reach.SEQUENCE)(mine)).reach is Reach.SEQUENCE
    assert replace(row, penalty=penalties.k1_in_return).reach is Reach.SEQUENCE


def test_a_reference_is_needed_by_penalties_and_by_margins() -> None:
    measured = {"a_star_po", "online_dpo", "online_kto", "opd", "opsd", "tba", "xpo"}
    assert {name for name, build in TABLE.items() if build().needs_reference} == measured
    row = replace(grpo(), penalty=penalties.k3, penalty_weight=0.1)
    assert row.needs_reference
    one = torch.zeros(1)
    index = torch.zeros(1, dtype=torch.int64)
    alone = Tokens(logp=one, behavior_logp=one, advantage=one, sequence=index, group=index)
    with pytest.raises(ValueError, match="needs reference_logp"):
        row.coefficients(alone, Denominators(groups=1, sequences=1, tokens=1, max_tokens=1))


def test_the_public_names_are_all_that_the_formulas_offer() -> None:
    apart = {"closed", "closed_groups", "public", "spelling"}
    files = [file.stem for file in Path(public.__file__).parent.glob("[!_]*.py") if file.stem not in apart]
    offered = {name for file in files for name in importlib.import_module(f"gnomon.objectives.{file}").__all__}
    assert sorted(public.__all__) == sorted(offered)
    assert all(hasattr(public, name) for name in public.__all__)
