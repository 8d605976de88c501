"""Length bias: closed forms, rows by enumeration, and rows by sampling.

Sampling takes 20 000 groups of 8 with success 0.4 and stop 0.1, about 1.6 million tokens and half a second a row. A
row without a bias must lie within 3 standard errors of zero on both logits (at a fixed seed, so it is no lottery; one
seed in two hundred would fail an honest row), a row with one beyond 10, and within 4 of its closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from length_forms import decay_bias, group_mean_bias, own_mean_bias, sampled_length_bias
from objective_cases import CASES, FORMS
from torch import Tensor

from gnomon.objectives import (
    Baseline,
    Objective,
    Rollouts,
    Scope,
    constant,
    objective,
    prompt_mean,
    sequence_mean,
    sequence_sum,
    terminal,
    token_mean,
)
from gnomon.theory import length_bias
from gnomon.theory.card_text import length_words

SUCCESS, STOP, GROUP = 0.4, 0.1, 8


def credit_of_right(name: str, group: int, success: float) -> float:
    """P(right)·E[A | right] in plain numbers."""
    total = 0.0
    for others in range(group):
        chance = math.comb(group - 1, others) * success**others * (1 - success) ** (group - 1 - others)
        mean = (1 + others) / group
        deviation = math.sqrt(mean * (1 - mean))
        centred = 1 - mean
        total += chance * (centred if name == "dr_grpo" else centred / (deviation + 1e-6) if deviation else 0.0)
    return success * total


@pytest.mark.parametrize("stop", [0.05, 0.3, 0.9])
def test_closed_forms_are_the_sums_that_they_stand_for(stop: float) -> None:
    lengths = range(1, int(60 / stop))
    chance = [stop * (1 - stop) ** (length - 1) for length in lengths]
    own = sum(c * (1 - stop * n) / n for c, n in zip(chance, lengths, strict=True))
    assert own_mean_bias(stop) == pytest.approx(own, abs=1e-12)
    for decay in (0.0, 0.9, 1.0):
        fading = sum(
            c * ((1 - stop) - stop * sum(decay**k for k in range(1, n))) for c, n in zip(chance, lengths, strict=True)
        )
        assert decay_bias(stop, decay) == pytest.approx(fading, abs=1e-12)
    assert group_mean_bias(stop, 1) == pytest.approx(own, abs=1e-12)
    longest = lengths[: int(30 / stop)]
    pairs = sum(stop**2 * (1 - stop) ** (n - 2) * (n - 1) * (2 / n) for n in range(2, 2 * len(longest)))
    assert group_mean_bias(stop, 2) == pytest.approx(pairs - stop, abs=1e-12)


def test_the_numbers_of_the_claim() -> None:
    """Groups of 8, success 0.4, stop 0.1: 0.070 for GRPO, 0.033 without its deviation, 0.0026 by mean over tokens."""
    centred, scored = (credit_of_right(name, GROUP, SUCCESS) for name in ("dr_grpo", "grpo"))
    assert scored * own_mean_bias(STOP) == pytest.approx(0.070, abs=5e-4)
    assert centred * own_mean_bias(STOP) == pytest.approx(0.033, abs=5e-4)
    assert centred * group_mean_bias(STOP, GROUP) == pytest.approx(0.0026, abs=5e-5)
    assert decay_bias(STOP, 1.0) == 0 and decay_bias(STOP, 0.95) > 0.3


@pytest.mark.parametrize("name", ["dr_grpo", "rloo", "reinforce"])
def test_a_divisor_that_ignores_length_has_no_bias(name: str) -> None:
    found = sampled_length_bias(objective(name))
    assert abs(found.right) < 3 * found.right_error
    assert abs(found.wrong) <= 3 * found.wrong_error


@pytest.mark.parametrize("name", ["grpo", "dapo"])
def test_a_divisor_that_is_a_length_pulls_both_ways(name: str) -> None:
    """Right answers become shorter, wrong ones longer, by what the closed form says."""
    found = sampled_length_bias(objective(name))
    assert found.right > 10 * found.right_error and found.wrong < -10 * found.wrong_error
    per_credit = own_mean_bias(STOP) if name == "grpo" else group_mean_bias(STOP, GROUP)
    expected = credit_of_right("grpo", GROUP, SUCCESS) * per_credit
    assert abs(found.right - expected) < 4 * found.right_error
    assert abs(found.wrong + expected) < 4 * found.wrong_error


def test_a_mean_over_tokens_as_a_baseline_pulls_by_one_over_the_group() -> None:
    """p(1−p)(1−s)(N−1)/(N(N+1)), from E[L²/T] = (2(N/s + 1)/(N + 1) − 1)/N for the L tokens of one of T.

    With turns for tokens: the returns of all turns of a group as one baseline.
    """
    found = sampled_length_bias(objective("opo"), groups=60_000)
    expected = SUCCESS * (1 - SUCCESS) * (1 - STOP) * (GROUP - 1) / (GROUP * (GROUP + 1))
    assert abs(found.right - expected) < 4 * found.right_error and found.right > 10 * found.right_error
    assert abs(found.wrong + expected) < 4 * found.wrong_error


def test_it_is_the_division_by_length_alone_that_pulls() -> None:
    """Dr. GRPO with its answers divided by their length, everything else kept."""
    found = sampled_length_bias(replace(objective("dr_grpo"), aggregate=sequence_mean))
    expected = credit_of_right("dr_grpo", GROUP, SUCCESS) * own_mean_bias(STOP)
    assert abs(found.right - expected) < 4 * found.right_error and found.right > 10 * found.right_error


def fading(rollouts: Rollouts, advantage: Callable[[Tensor], Tensor]) -> Tensor:
    """Credit 0.9^(L−t) of a token, as from a critic that expects nothing and λ = 0.9."""
    from_end = [torch.arange(int(length) - 1, -1, -1) for length in rollouts.lengths.flatten()]
    return rollouts.spread(advantage(rollouts.rewards)) * 0.9 ** torch.cat(from_end)


def test_credit_that_fades_pulls_as_the_closed_form_says() -> None:
    found = sampled_length_bias(replace(objective("reinforce"), credit=fading), groups=4000)
    expected = SUCCESS * decay_bias(STOP, 0.9)
    assert abs(found.right - expected) < 4 * found.right_error and found.right > 10 * found.right_error


def by_hand(row: Objective, group: int, success: float, stop: float, limit: int) -> float:
    """The pull on right answers of a row that divides by their own length, in a world with a limit, as a plain sum."""
    chances = [stop * (1 - stop) ** (n - 1) for n in range(1, limit + 1)]
    scores = [1 - stop * n for n in range(1, limit + 1)]
    mean = sum(c * s / n for n, (c, s) in enumerate(zip(chances, scores, strict=True), 1))
    return credit_of_right(row.name, group, success) * (mean + (1 - stop) ** limit * -stop)


def test_enumeration_is_the_sum_by_hand() -> None:
    row = objective("grpo")
    for limit in (1, 3):
        found = length_bias(row, group=3, success=0.3, stop=0.4, max_tokens=limit)
        assert found.right == pytest.approx(by_hand(row, 3, 0.3, 0.4, limit), abs=1e-12)
        assert found.wrong == pytest.approx(-found.right, abs=1e-12)


@pytest.mark.parametrize("name", ["dapo", "dr_grpo"])
def test_enumeration_and_sampling_agree(name: str) -> None:
    row = objective(name)
    exact = length_bias(row, group=3, success=0.3, stop=0.4, max_tokens=4)
    drawn = sampled_length_bias(row, group=3, success=0.3, stop=0.4, max_tokens=4)
    assert abs(exact.right - drawn.right) < 4 * drawn.right_error
    assert abs(exact.wrong - drawn.wrong) < 4 * drawn.wrong_error


@pytest.mark.parametrize("name", FORMS)
def test_every_row_pulls_or_does_not_as_its_divisor_says(name: str) -> None:
    row = CASES[name].row
    if row.credit is not terminal:
        pytest.skip("credit of its own may look at length")
    found = length_bias(row, group=max(4, row.min_group))
    if row.aggregate in (constant, sequence_sum):
        assert max(abs(found.right), abs(found.wrong)) < 1e-12
        assert "no effect where length" in length_words(found)
    elif row.aggregate in (sequence_mean, token_mean, prompt_mean):
        assert found.right > 1e-3 and (found.wrong < -1e-3 or row.baseline is Baseline.NONE)
        assert "right answers become shorter" in length_words(found)


def less_step_mean(rollouts: Rollouts, advantage: Callable[[Tensor], Tensor]) -> Tensor:
    """Rewards less the mean of the whole step."""
    return rollouts.spread(rollouts.rewards - rollouts.rewards.mean())


def test_a_row_that_looks_at_the_whole_step_gets_each_group_as_one() -> None:
    """A step of one group has that group's mean."""
    alone = replace(objective("reinforce_centred"), aggregate=sequence_mean)
    found = length_bias(replace(alone, credit=less_step_mean, scope=Scope.STEP), group=2)
    assert found.right == pytest.approx(length_bias(alone, group=2).right, abs=1e-12) and found.right > 0.01


def test_a_seed_repeats_itself() -> None:
    row = objective("grpo")
    first, again, other = (sampled_length_bias(row, groups=500, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
