"""Every row of the table against every check, and against steps drawn at random."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from objective_cases import CASES, LOSSES, VARIANTS, Case, Unclaimed, collect
from objective_checks import SUITE, check_additive, check_order, check_textbook
from objective_steps import Step, make_step

from gnomon.objectives import TABLE, Rewards, dr_grpo, reinforce


@pytest.mark.parametrize("check", SUITE)
@pytest.mark.parametrize("name", CASES)
def test_row(name: str, check: str) -> None:
    SUITE[check](CASES[name])


@st.composite
def steps(draw: st.DrawFn) -> Step:
    groups, size = draw(st.integers(1, 3)), draw(st.integers(2, 4))
    reward = st.sampled_from([0.0, 1.0, 0.1, 1.1, -1.0])
    rewards = [[draw(reward) for _ in range(size)] for _ in range(groups)]
    lengths = [[draw(st.integers(0, 6)) for _ in range(size)] for _ in range(groups)]
    return make_step(draw(st.integers(0, 10**6)), rewards, lengths, decoupled=draw(st.booleans()))


def check_on(case: Case, step: Step, data: st.DataObject) -> None:
    if case.row.rewards is Rewards.BINARY:
        step = replace(step, rewards=[[float(reward > 0.5) for reward in group] for group in step.rewards])
    count = len(step.rollouts())
    check_additive(case, step, data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)))
    check_order(case, step, seed=data.draw(st.integers(0, 100)))
    for dtype in (torch.float32, torch.float64):
        check_textbook(case, step, dtype)


FOUNDATION = {
    name: case
    for name, case in CASES.items()
    if case.row.name in ("reinforce", "rloo", "grpo", "dr_grpo", "dr_grpo truncated")
}
"""What the other rows are built upon; they are drawn at more often."""
OTHERS = {name: case for name, case in CASES.items() if name not in FOUNDATION}


@pytest.mark.parametrize("case", FOUNDATION.values(), ids=FOUNDATION)
@given(step=steps(), data=st.data())
@settings(max_examples=80, deadline=None, derandomize=True, database=None)
def test_foundation_on_any_step(case: Case, step: Step, data: st.DataObject) -> None:
    check_on(case, step, data)


@pytest.mark.parametrize("case", OTHERS.values(), ids=OTHERS)
@given(step=steps(), data=st.data())
@settings(max_examples=15, deadline=None, derandomize=True, database=None)
def test_row_on_any_step(case: Case, step: Step, data: st.DataObject) -> None:
    check_on(case, step, data)


def test_every_row_is_collected() -> None:
    assert {case.row.name for case in collect(TABLE, LOSSES, VARIANTS)} == set(TABLE)
    assert all(build().name == name for name, build in TABLE.items())


def test_a_row_without_a_target_fails_collection() -> None:
    def bare() -> object:
        row = reinforce()
        object.__setattr__(row, "target", None)
        return row

    with pytest.raises(Unclaimed, match="no target"):
        collect({"reinforce": bare}, LOSSES, {})


def test_a_row_without_a_textbook_loss_fails_collection() -> None:
    with pytest.raises(Unclaimed, match="no textbook loss"):
        collect({"novel": dr_grpo}, LOSSES, {})
