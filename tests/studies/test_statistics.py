"""The statistics of a study, held to published values and to simulated studies with known answers."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from scipy import stats

from gnomon.studies.statistics import Conclusion, detectable, estimate, judge_above, judge_within, power

STUDIES = 2000


def test_the_interval_is_students():
    values = [0.1, 0.3, -0.2, 0.4, 0.15]
    low, high = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    found = estimate(values)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-12)
    assert found.mean == pytest.approx(0.15) and found.seeds == 5


def test_one_seed_says_nothing_of_scatter():
    assert estimate([0.3]).low == -math.inf
    assert judge_above([5.0], 0.0) is Conclusion.INCONCLUSIVE
    assert judge_within([0.0], 1.0) is Conclusion.INCONCLUSIVE


@pytest.mark.parametrize(
    ("seeds", "effect"), [(3, 3.26), (4, 2.13), (5, 1.68), (6, 1.43), (8, 1.15), (10, 0.99), (20, 0.66)]
)
def test_the_detectable_effect_is_that_of_the_tables(seeds, effect):
    """Power tables of the paired t test, 80 %, two-sided 5 %; given to two places."""
    assert detectable(seeds) == pytest.approx(effect, abs=0.0065)
    assert power(detectable(seeds), seeds) == pytest.approx(0.8, abs=1e-5)


def drawn(effect: float, seeds: int) -> np.ndarray:
    """[STUDIES, seeds] differences with a standard deviation of 1."""
    return np.random.default_rng(0).normal(effect, 1.0, (STUDIES, seeds))


@pytest.mark.parametrize("seeds", [3, 8])
def test_no_difference_gives_few_verdicts(seeds):
    """5 % of 2,000 are 100, with a standard deviation of 9.7; 120 is two of them above."""
    found = [judge_above(row.tolist(), 0.0) for row in drawn(0.0, seeds)]
    assert sum(verdict is not Conclusion.INCONCLUSIVE for verdict in found) <= 120


@pytest.mark.parametrize("seeds", [3, 8])
def test_the_stated_difference_is_found_with_the_stated_power(seeds):
    """80 % of 2,000 are 1,600, with a standard deviation of 17.9; 1,560 is 2.2 of them below."""
    found = [judge_above(row.tolist(), 0.0) for row in drawn(detectable(seeds), seeds)]
    assert sum(verdict is Conclusion.PASS for verdict in found) >= 1560
    assert sum(verdict is Conclusion.FAIL for verdict in found) <= 2


@pytest.mark.parametrize("looks", [(4, 8), (3, 4, 5, 6, 7, 8, 9, 10)])
def test_stopping_early_by_the_rule_gives_no_more_false_verdicts(looks):
    """Each look has its share of the error."""
    wrong = 0
    for row in drawn(0.0, looks[-1]):
        shown = (judge_above(row[:count].tolist(), 0.0, 0.05 / len(looks)) for count in looks)
        wrong += any(verdict is not Conclusion.INCONCLUSIVE for verdict in shown)
    assert wrong <= 120


def test_equivalence_is_shown_within_the_margin_and_not_beyond():
    """The chance of a wrong PASS at the margin itself is at most 5 %: 100 of 2,000, 120 with scatter."""
    rng = random.Random(0)

    def study(mean: float) -> Conclusion:
        return judge_within([rng.gauss(mean, 1.0) for _ in range(12)], 1.0)

    assert sum(study(1.0) is Conclusion.PASS for _ in range(STUDIES)) <= 120
    assert sum(study(0.0) is Conclusion.PASS for _ in range(200)) >= 150
    assert sum(study(3.0) is Conclusion.FAIL for _ in range(200)) >= 190
