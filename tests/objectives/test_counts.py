"""Count weights: what they climb, how far a group moves the policy, and how much they scatter."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.objectives import (
    FAMILIES,
    CountWeight,
    Regime,
    analytic_weight,
    centred_pass_weight,
    control_weight,
    count_advantage,
    direct_weight,
    family_weight,
    less_baseline,
    regime,
    reinforce,
    released_weight,
    sub_weight,
    update_scale,
    without_failures,
)
from gnomon.theory.exact import moments
from gnomon.theory.world import correct, outcomes, world

F64 = torch.float64

NAMED = {
    "direct": direct_weight,
    "control": control_weight,
    "released": partial(released_weight, epsilon=0.0),
    "sub": partial(sub_weight, order=2),
    "A": partial(family_weight, family="A", parameter=0.4, baseline=0.3),
    "B": partial(family_weight, family="B", parameter=1.7),
    "C": partial(family_weight, family="C", parameter=0.4),
    "D": partial(family_weight, family="D", parameter=1.3, baseline=-0.2),
    "centred pass": partial(centred_pass_weight, k=2),
    "analytic pass": partial(analytic_weight, k=2),
}


def weight_of(advantage: object, group: int) -> CountWeight:
    """The count weight of any advantage, read off its groups."""
    assert callable(advantage)
    rewards = torch.tensor([[1.0] * k + [0.0] * (group - k) for k in range(group + 1)], dtype=F64)
    found = advantage(rewards)
    success = [0.0] + [float(found[k, 0]) for k in range(1, group + 1)]
    return CountWeight(success=tuple(success), failure=(*(float(found[k, -1]) for k in range(group)), 0.0))


def numbers(size: int) -> st.SearchStrategy[list[float]]:
    return st.lists(st.floats(-3, 3), min_size=size, max_size=size)


@given(data=st.data(), group=st.integers(1, 7), p=st.floats(0, 1))
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
def test_a_baseline_of_the_others_changes_no_expectation(data: st.DataObject, group: int, p: float) -> None:
    beta, baseline = data.draw(numbers(group)), data.draw(numbers(group))
    weight = without_failures(beta)
    assert weight.beta == tuple(beta)
    moved = less_baseline(weight, baseline)
    assert moved.beta == pytest.approx(beta, abs=1e-12)
    assert moved.weight_at(p) == pytest.approx(weight.weight_at(p), abs=1e-12)
    others = [math.comb(group - 1, m) * p**m * (1 - p) ** (group - 1 - m) for m in range(group)]
    assert weight.weight_at(p) == pytest.approx(sum(b * x for b, x in zip(beta, others, strict=True)), abs=1e-12)


@given(group=st.integers(1, 6), data=st.data())
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
def test_a_polynomial_of_degree_below_n_has_one_weight_that_climbs_it(group: int, data: st.DataObject) -> None:
    """w at N points gives β back: nothing else climbs it."""
    beta = data.draw(numbers(group))
    points = [(i + 0.5) / group for i in range(group)]
    last = group - 1
    basis = [[math.comb(last, m) * p**m * (1 - p) ** (last - m) for m in range(group)] for p in points]
    values = torch.tensor([without_failures(beta).weight_at(p) for p in points], dtype=F64)
    found = torch.linalg.solve(torch.tensor(basis, dtype=F64), values)
    assert torch.allclose(found, torch.tensor(beta, dtype=F64), atol=1e-9)


@pytest.mark.parametrize("group", [3, 4, 8, 32, 128])
@pytest.mark.parametrize("p", [0.0, 0.03, 0.5, 1.0])
def test_named_weights_climb_their_closed_forms(group: int, p: float) -> None:
    def likelihood(order: int) -> float:
        return (1 - (1 - p) ** order) / p if p else float(order)

    def rising(x: float) -> float:
        terms = [math.gamma(x + k) / math.gamma(x) / math.factorial(k) for k in range(min(group, 100))]
        return sum(term * (1 - p) ** k for k, term in enumerate(terms))

    assert direct_weight(group).weight_at(p) == pytest.approx(likelihood(group))
    assert control_weight(group).weight_at(p) == pytest.approx(likelihood(group))
    assert released_weight(group, epsilon=0.0).weight_at(p) == pytest.approx(likelihood(group - 1))
    assert sub_weight(group, order=3).weight_at(p) == pytest.approx(likelihood(3))
    assert centred_pass_weight(group, k=2).weight_at(p) == pytest.approx((1 - 2 / group) * (1 - p))
    for ratio in (0.5, 1.4):
        power = [(ratio * (1 - p)) ** k for k in range(group)]
        assert family_weight(group, family="D", parameter=ratio).weight_at(p) == pytest.approx(sum(power))
    if group <= 32:
        assert family_weight(group, family="A", parameter=0.4).weight_at(p) == pytest.approx(rising(0.4))


def test_large_groups_overflow_nothing() -> None:
    for family in FAMILIES:
        for x in (0.0, 0.5, 1.0):
            weight = family_weight(4096 if family != "D" else 128, family=family, parameter=x)
            assert all(map(math.isfinite, weight.success)) and weight.success[-1] == pytest.approx(1)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("group", [1, 2, 5, 16])
def test_every_family_runs_from_reinforce_through_maximum_likelihood(family: str, group: int) -> None:
    assert family_weight(group, family=family, parameter=0.0).success[1:] == pytest.approx([1.0] * group)
    ones = family_weight(group, family=family, parameter=1.0)
    assert ones.success == pytest.approx(direct_weight(group).success)
    halfway = family_weight(group, family=family, parameter=0.5)
    assert halfway.weight_at(1.0) == pytest.approx(1)
    assert group == 1 or 1 < halfway.weight_at(0.0) < ones.weight_at(0.0) == pytest.approx(group)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_update_scale_turns_over_at_maximum_likelihood(family: str) -> None:
    """Sub-, super- and critical by the dial; w falls with p on all three sides, so w cannot tell them apart."""
    for x, kind in [
        (0.0, Regime.SUBCRITICAL),
        (0.7, Regime.SUBCRITICAL),
        (1.0, Regime.CRITICAL),
        (1.15, Regime.SUPERCRITICAL),
    ]:
        weight = family_weight(6, family=family, parameter=x)
        scale = update_scale(weight)
        assert regime(weight) is kind and scale[0] == 0 and scale[-1] == pytest.approx(1)
        assert all(scale[k] == pytest.approx(k * weight.success[k] / 6) for k in range(7))
        assert x == 0 or weight.weight_at(0.2) > weight.weight_at(0.4) > weight.weight_at(0.8)


def test_a_scale_that_rises_and_falls_is_neither() -> None:
    assert regime(without_failures([1.0, 3.0, 0.1])) is Regime.MIXED
    with pytest.raises(ValueError, match="failures nothing"):
        update_scale(control_weight(3))


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_mean_update_scale_is_p_times_w(p: float) -> None:
    weight = family_weight(5, family="A", parameter=0.6)
    chances = [math.comb(5, k) * p**k * (1 - p) ** (5 - k) for k in range(6)]
    mean = sum(s * c for s, c in zip(update_scale(weight), chances, strict=True))
    assert mean == pytest.approx(p * weight.weight_at(p))


@pytest.mark.parametrize(
    ("family", "parameter", "message"),
    [
        ("E", 0.5, "known: A, B, C, D"),
        ("A", -1.0, "no parameter"),
        ("B", math.inf, "no parameter"),
        ("D", -0.1, "no parameter"),
        ("C", 1.5, "no parameter 1.5 in groups of 3"),
    ],
)
def test_a_family_refuses_what_it_cannot_be(family: str, parameter: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        family_weight(3, family=family, parameter=parameter)


def test_weights_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="one a"):
        CountWeight(success=(0.0, 1.0), failure=(0.0,))
    with pytest.raises(ValueError, match="needs 2 baselines"):
        less_baseline(direct_weight(2), [1.0])


# Scatter.


def test_verifier_noise_scales_what_is_climbed() -> None:
    """With misses and false alarms the gradient is (1 − fn − fp)·w(p_seen)·∇p."""
    place = world()
    policy = place.logits()
    sure = outcomes(place, policy, correct)
    miss, alarm = 0.2, 0.1
    seen = torch.where(sure.reward == 1, 1 - miss, torch.tensor(alarm, dtype=F64))
    noisy = replace(
        sure,
        answer=sure.answer.repeat(2),
        chance=torch.cat([sure.chance * seen, sure.chance * (1 - seen)]),
        reward=torch.cat([torch.ones(15), torch.zeros(15)]).to(F64),
    )
    row = replace(reinforce(), advantage=partial(count_advantage, weight=direct_weight))
    found = moments(row, place, policy=policy, behavior=policy, possible=noisy, group=3).mean
    slope = place.per_answer(place.scores(policy)).T @ (sure.chance * sure.reward)
    observed = alarm + (1 - miss - alarm) * float(sure.chance @ sure.reward)
    claim = (1 - miss - alarm) * direct_weight(3).weight_at(observed) * slope
    assert torch.allclose(found, claim, atol=1e-12)
