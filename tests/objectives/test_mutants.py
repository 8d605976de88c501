"""The suite can fail: it kills every mutant, and every check in it kills at least one."""

from __future__ import annotations

import pytest
from objective_cases import Case
from objective_checks import SUITE
from objective_mutants import NEARER, mutants

MUTANTS = mutants()
FIRST = (
    "textbook, float64",
    "needs",
    "shift",
    "singleton",
    "mismatch, one token",
    "off policy, one token",
    "additive",
    "finite",
    "detached",
    "expectation of 1, correct",
    "mismatch, states",
    "off policy, states",
    "expectation of 2, correct",
    "off policy, order",
    "order",
    "negative control",
)
"""Three of four mutants die of the first. The others stand by what they cost, milliseconds to half a second."""
QUICK = sorted(SUITE, key=lambda check: FIRST.index(check) if check in FIRST else len(FIRST))
SIMPLE = ("rloo:", "grpo:", "fcp:", "kimi_k15:")
"""Rows whose mutants are quick to try, and among which most checks find one."""


def fails(case: Case, check: str) -> bool:
    try:
        SUITE[check](case)
    except (AssertionError, ValueError):  # Refusing what the row claims to accept fails it too.
        return True
    return False


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_killed(name: str) -> None:
    assert any(fails(MUTANTS[name], check) for check in QUICK), f"no check notices {name!r}"


@pytest.mark.parametrize("check", SUITE)
def test_check_kills(check: str) -> None:
    tried = sorted(MUTANTS, key=lambda name: not name.startswith(SIMPLE))
    assert any(fails(MUTANTS[name], check) for name in tried), f"{check!r} never fails"


@pytest.mark.parametrize("name", [name for name in MUTANTS if name.endswith(NEARER)])
def test_a_nearer_reach_than_a_row_has_is_noticed_where_a_step_is_cut(name: str) -> None:
    assert fails(MUTANTS[name], "additive")
