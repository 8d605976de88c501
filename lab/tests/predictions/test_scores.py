"""Scores of forecasts, by hand."""

from __future__ import annotations

import math

import pytest

from gnomon_lab.predictions.scores import brier, interval_score, log_score, pinball

EXACT = 1e-12
"""A few roundings of float64."""


@pytest.mark.parametrize(
    ("probability", "happened", "quadratic", "logarithmic"),
    [
        (0.7, True, 0.09, -math.log(0.7)),
        (0.7, False, 0.49, -math.log(0.3)),
        (0.5, True, 0.25, math.log(2)),
        (0.0, True, 1.0, math.log(100)),
        (1.0, False, 1.0, math.log(100)),
        (1.0, True, 0.0, -math.log(0.99)),
    ],
)
def test_a_probability(probability, happened, quadratic, logarithmic):
    assert brier(probability, happened) == pytest.approx(quadratic, abs=EXACT)
    assert log_score(probability, happened) == pytest.approx(logarithmic, abs=EXACT)


@pytest.mark.parametrize(("value", "expected"), [(0.63, 0.2), (0.5, 0.2), (0.7, 0.2), (0.75, 0.7), (0.4, 1.2)])
def test_an_interval_of_80_percent(value, expected):
    """Width .2; ten times the distance outside."""
    assert interval_score(0.5, 0.7, 0.8, value) == pytest.approx(expected, abs=EXACT)


def test_quantiles():
    """(.1 × .23 + .5 × .03 + .1 × .07) / 3."""
    assert pinball({0.1: 0.4, 0.5: 0.6, 0.9: 0.7}, 0.63) == pytest.approx(0.015, abs=EXACT)


@pytest.mark.parametrize("truth", [0.1, 0.35, 0.8])
def test_the_truth_scores_best(truth):
    """In expectation, the stated probability that minimises each score is the true one."""

    def expected(score, stated):
        return truth * score(stated, True) + (1 - truth) * score(stated, False)

    grid = [k / 100 for k in range(1, 100)]
    for score in (brier, log_score):
        assert min(grid, key=lambda stated: expected(score, stated)) == pytest.approx(truth, abs=EXACT)
