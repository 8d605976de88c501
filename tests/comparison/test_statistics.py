"""The statistics of a study, held to published values and to simulated studies with known answers."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from scipy import stats

from gnomon.comparison.statistics import detectable, estimate, estimate_crossed, judge_above, judge_within, power
from gnomon.types import Conclusion

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


def crossed(generator: np.random.Generator, seeds: int, tasks: int, scatter: tuple[float, float, float]) -> np.ndarray:
    """[seeds, tasks] of mean 0, with standard deviations of the seeds, of the tasks, and of both together."""
    of_seeds, of_tasks, of_cells = scatter
    rows, columns = generator.normal(0, of_seeds, (seeds, 1)), generator.normal(0, of_tasks, (1, tasks))
    return rows + columns + generator.normal(0, of_cells, (seeds, tasks))


def test_seeds_and_tasks_give_the_variance_of_the_equation():
    """By numpy: V = s²_seeds/S + s²_tasks/T − s²_cells/(S·T), with min(S, T) − 1 degrees of freedom."""
    table = crossed(np.random.default_rng(2), 6, 40, (0.1, 0.4, 0.3))
    expected = table.mean(1).var(ddof=1) / 6 + table.mean(0).var(ddof=1) / 40 - table.var(ddof=1) / 240
    found = estimate_crossed(table.tolist())
    half = stats.t.ppf(0.975, 5) * np.sqrt(expected)
    assert expected > max(table.mean(1).var(ddof=1) / 6, table.mean(0).var(ddof=1) / 40)
    assert (found.mean, found.low, found.high) == pytest.approx(
        (table.mean(), table.mean() - half, table.mean() + half)
    )
    assert found.low < estimate(table.mean(1).tolist()).low


@pytest.mark.parametrize("scatter", [(0.05, 0.0, 0.3), (0.0, 0.4, 0.3), (0.05, 0.4, 0.3)])
def test_an_interval_over_seeds_and_tasks_holds_for_both(scatter):
    """500 simulated comparisons of 6 seeds and 40 tasks: 5 % are 25 false ones, with a standard deviation of 4.9."""
    generator = np.random.default_rng(0)
    found = [estimate_crossed(crossed(generator, 6, 40, scatter).tolist()) for _ in range(500)]
    assert sum(not each.low < 0 < each.high for each in found) <= 35


def test_an_interval_over_seeds_alone_does_not_hold_for_other_tasks():
    generator = np.random.default_rng(0)
    found = [estimate(crossed(generator, 6, 40, (0.05, 0.4, 0.3)).mean(1).tolist()) for _ in range(500)]
    assert sum(not each.low < 0 < each.high for each in found) > 150


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
