"""Numbers that merge, intervals, pass@k: laws and independent references."""

import math
from itertools import combinations
from random import Random
from statistics import NormalDist, fmean

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from gnomon.stats import (
    Interval,
    Max,
    Mean,
    Stat,
    Sum,
    difference_interval,
    mean_interval,
    merge,
    pass_at_k,
    t_quantile,
)

NUMBER = st.integers(-1000, 1000).map(float)  # sums of these are exact
STATS: list[st.SearchStrategy[Stat]] = [
    st.builds(Sum, NUMBER),
    st.builds(Mean, NUMBER, st.integers(0, 50).map(float)),
    st.builds(Max, NUMBER),
]
TABLES = st.fixed_dictionaries({}, optional={"sum": STATS[0], "mean": STATS[1], "max": STATS[2]})


@given(TABLES, TABLES, TABLES)
def test_merging_is_associative_commutative_and_changes_nothing_given(
    a: dict[str, Stat], b: dict[str, Stat], c: dict[str, Stat]
) -> None:
    kept = dict(a)
    assert merge(merge(a, b), c) == merge(a, merge(b, c))
    assert merge(a, b) == merge(b, a)
    assert merge(a, {}) == merge({}, a) == a == kept


@given(st.lists(NUMBER, min_size=1, max_size=30), st.data())
def test_a_mean_of_shares_is_the_mean_of_all(values: list[float], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(values)))
    a, b = (Mean(sum(part), len(part)) for part in (values[:cut], values[cut:]))
    assert (a + b).value == pytest.approx(sum(values) / len(values))


def test_an_empty_mean_is_no_number() -> None:
    assert math.isnan(Mean(0.0, 0.0).value)


def test_two_kinds_under_one_name_are_an_error() -> None:
    with pytest.raises(TypeError, match="'loss' is a Sum and a Mean"):
        merge({"loss": Sum(1.0)}, {"loss": Mean(1.0)})


def test_no_merge_hides_a_value_that_is_not_a_number() -> None:
    bad, good = Max(math.nan), Max(1.0)
    assert all(math.isnan(stat.value) for stat in (bad + good, good + bad, good + bad + good))


@pytest.mark.parametrize("n", [1, 2, 7, 50, 400])
def test_the_ends_of_an_interval_are_the_rates_that_a_test_just_accepts(n: int) -> None:
    """Wilson's definition: the rates p with (p̂ − p)² = z² p (1 − p) / n."""
    z = NormalDist().inv_cdf(0.975)
    for hits in {0, 1, n // 3, n // 2, n - 1, n}:
        found = mean_interval([1.0] * hits + [0.0] * (n - hits))
        assert found.value == pytest.approx(hits / n) and found.n == n
        for end in {found.low, found.high}:
            assert (found.value - end) ** 2 == pytest.approx(z * z * end * (1 - end) / n, abs=1e-12)


def test_the_interval_of_a_rate_is_scipys() -> None:
    stats = pytest.importorskip("scipy.stats")
    for n, hits in [(1, 0), (1, 1), (7, 2), (50, 0), (400, 399)]:
        mine = mean_interval([1.0] * hits + [0.0] * (n - hits))
        theirs = stats.binomtest(hits, n).proportion_ci(0.95, method="wilson")
        assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_an_interval_holds_its_value_and_stays_in_range(values: list[float]) -> None:
    found = mean_interval(values)
    assert 0 <= found.low <= found.value + 1e-12 and found.value <= found.high + 1e-12 and found.high <= 1


def test_scores_that_are_means_give_a_narrower_interval() -> None:
    yes_or_no = mean_interval([0.0, 1.0] * 20)
    means = mean_interval([0.4, 0.6] * 20)
    assert means.value == yes_or_no.value == 0.5
    assert means.high - means.low < (yes_or_no.high - yes_or_no.low) / 2


def test_the_interval_covers_the_truth() -> None:
    """Exact coverage of the rate 0.3 at n = 40, summed over every outcome: between 92 % and 98 %."""
    rate, n = 0.3, 40
    covered = 0.0
    for hits in range(n + 1):
        found = mean_interval([1.0] * hits + [0.0] * (n - hits))
        if found.low <= rate <= found.high:
            covered += math.comb(n, hits) * rate**hits * (1 - rate) ** (n - hits)
    assert 0.92 < covered < 0.98


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_a_unit_scored_several_times_is_not_several_units(copies: int) -> None:
    """Every unit `copies` times, in any order: the interval of the units, with Kish's size."""
    values = [1.0, 0.0, 0.25, 1.0, 0.5, 0.0, 1.0]
    once, several = mean_interval(values), mean_interval(values * copies, list(range(7)) * copies)
    assert several.n == once.n == 7
    assert (several.value, several.low, several.high) == pytest.approx((once.value, once.low, once.high), abs=1e-12)


def test_one_unit_with_most_of_the_values_says_little() -> None:
    """By hand: 10 values, 7 of one unit and 3 of others, so m = 100 / (49 + 3); all right, so the size is m."""
    found, z2 = mean_interval([1.0] * 10, ["a"] * 7 + ["b", "c", "d"]), NormalDist().inv_cdf(0.975) ** 2
    assert found.n == 4 and found.high == 1 and found.low == pytest.approx((100 / 52) / (100 / 52 + z2))


@pytest.mark.parametrize(("units", "at_least"), [(True, 0.92), (False, 0.0)])
def test_the_interval_covers_the_truth_where_tasks_repeat(units: bool, at_least: float) -> None:
    """A task is right with chance 0.4 and always answered alike; 120 draws of 40 tasks, some drawn far more often.

    Without units the interval is far too narrow: that is the fault which they mend.
    """
    rng, rounds, covered = Random(0), 2000, 0
    for _ in range(rounds):
        right = [float(rng.random() < 0.4) for _ in range(40)]
        drawn = [int(40 * rng.random() ** 1.5) for _ in range(120)]
        found = mean_interval([right[task] for task in drawn], drawn if units else ())
        covered += found.low <= 0.4 <= found.high
    assert at_least <= covered / rounds <= (0.99 if units else 0.75)


def test_values_need_a_unit_each() -> None:
    with pytest.raises(ValueError):
        mean_interval([0.0, 1.0], ["a"])


@pytest.mark.parametrize("values", [[], [1.1], [-0.1, 0.5], [math.nan]])
def test_an_interval_of_nothing_or_of_no_scores_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="interval"):
        mean_interval(values)


def test_an_interval_as_text() -> None:
    assert str(Interval(value=0.5, low=0.25, high=0.75, n=4)) == "0.500 [0.250, 0.750]"


@pytest.mark.parametrize("n", range(1, 8))
def test_pass_at_k_is_the_share_of_subsets_with_a_hit(n: int) -> None:
    for correct in range(n + 1):
        samples = [True] * correct + [False] * (n - correct)
        for k in range(1, n + 1):
            subsets = list(combinations(samples, k))
            assert pass_at_k(n, correct, k) == pytest.approx(sum(map(any, subsets)) / len(subsets), abs=1e-12)


@pytest.mark.parametrize(("n", "correct", "k"), [(4, 1, 0), (4, 1, 5), (4, 5, 1), (4, -1, 1), (0, 0, 1)])
def test_pass_at_k_refuses_impossible_counts(n: int, correct: int, k: int) -> None:
    with pytest.raises(ValueError):
        pass_at_k(n, correct, k)


@pytest.mark.parametrize("freedom", [1, 2, 3, 7, 30, 255, 5000])
def test_the_quantile_of_t_is_the_published_one(freedom):
    assert t_quantile(freedom) == pytest.approx(scipy.stats.t.ppf(0.975, freedom), rel=1e-6)


def test_paired_differences_have_the_interval_of_a_paired_t_test():
    differences = [0.5, -0.25, 0.0, 1.0, 0.125]
    found = difference_interval(differences)
    expected = scipy.stats.ttest_rel(differences, [0.0] * 5).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-6)
    assert found.n == 5 and found.value == fmean(differences)
    same, single = difference_interval([0.5] * 4), difference_interval([0.5])
    assert same.low == same.high == 0.5 and single.low == -math.inf and single.high == math.inf
