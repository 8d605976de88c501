"""The rule of a study held to 2,000 simulated studies with known answers: `outcome` at every look, as a study calls it.

A measure of an arm is its true mean plus noise of the seed, which both arms share, plus noise of its own. The
differences have a standard deviation of 1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from gnomon.comparison.statistics import detectable, equivalent, power_within
from gnomon.types import Conclusion
from gnomon_lab.studies import Claim, Study
from gnomon_lab.studies.outcome import Measured, Outcome, first_decided

STUDIES = 2000
FALSE = 120
"""Allowed of 2,000: 5 % are 100, with a standard deviation of 9.7."""
MOST_LOOKS = tuple(range(3, 11))
DESIGNS = [(1, ()), (3, ()), (1, (4, 8)), (3, (4, 8)), (1, MOST_LOOKS)]
"""Claims, and looks."""


def asked(
    claims: int = 1, looks: Sequence[int] = (), seeds: int = 8, within: float | None = None, **more: object
) -> Study:
    """A study in which each of so many arms is compared with one base."""
    names = [f"arm {number}" for number in range(claims)]
    line = {} if within is None else {"within": within}
    return Study(
        question="?",
        why="",
        arms=dict.fromkeys(["base", *names], dict),
        seeds=range(looks[-1] if looks else seeds),
        looks=looks,
        claims=[Claim(measure="m", arm=name, than="base", **line) for name in names],
        prediction={"PASS": 1.0, "FAIL": 0.0, "INCONCLUSIVE": 0.0},
        **more,
    )


def simulated(study: Study, effect: float, crashes: float = 0.0) -> list[Outcome]:
    """2,000 studies whose arms exceed the base by an effect. Args: crashes: chance that a run of any arm crashes."""
    rng = np.random.default_rng(0)
    arms, seeds = len(study.arms), len(study.seeds)
    noise = rng.normal(0.0, math.sqrt(0.5), (STUDIES, arms, seeds)) + rng.normal(0.0, 2.0, (STUDIES, 1, seeds))
    noise[:, 1:] += effect
    crashed = rng.random(noise.shape) < crashes

    def of(one: int) -> Outcome:
        def measured(until: Sequence[int]) -> Measured:
            return {
                arm: {seed: None if crashed[one, at, seed] else {"m": float(noise[one, at, seed])} for seed in until}
                for at, arm in enumerate(study.arms)
            }

        return first_decided(study, measured)

    return [of(one) for one in range(STUDIES)]


def verdicts(found: Sequence[Outcome]) -> Counter[Conclusion]:
    return Counter(each.verdict for each in found)


@pytest.mark.parametrize("crashes", [0.0, 0.1], ids=["", "a tenth of the runs crash"])
@pytest.mark.parametrize(("claims", "looks"), DESIGNS, ids=str)
def test_no_difference_gives_few_verdicts(claims: int, looks: Sequence[int], crashes: float) -> None:
    """Crashes count with the same value in every arm, so there is still no difference."""
    found = verdicts(simulated(asked(claims, looks, crashed={"m": 0.0}), 0.0, crashes))
    assert found[Conclusion.PASS] + found[Conclusion.FAIL] <= FALSE


@pytest.mark.parametrize(("claims", "looks"), DESIGNS[:4], ids=str)
def test_no_difference_is_wrongly_shown_in_few_studies(claims: int, looks: Sequence[int]) -> None:
    """The true difference is the margin itself."""
    found = verdicts(simulated(asked(claims, looks, within=1.5), 1.5))
    assert found[Conclusion.PASS] <= FALSE


@pytest.mark.parametrize(("claims", "looks"), DESIGNS, ids=str)
def test_the_stated_difference_is_found_with_the_stated_power(claims: int, looks: Sequence[int]) -> None:
    """The power is that of each claim: 80 % of 2,000 are 1,600, with a standard deviation of 17.9."""
    study = asked(claims, looks)
    found = simulated(study, detectable(len(study.seeds), study.share))
    for claim in range(claims):
        assert sum(each.claims[claim].verdict is Conclusion.PASS for each in found) >= 1560
    assert verdicts(found)[Conclusion.FAIL] <= 2


@pytest.mark.parametrize(("claims", "looks"), DESIGNS[:4], ids=str)
def test_no_difference_is_shown_with_the_stated_power(claims: int, looks: Sequence[int]) -> None:
    wide = asked(claims, looks)
    found = simulated(asked(claims, looks, within=equivalent(len(wide.seeds), wide.share)), 0.0)
    for claim in range(claims):
        assert sum(each.claims[claim].verdict is Conclusion.PASS for each in found) >= 1560


def test_the_power_of_equivalence_is_that_of_simulated_studies() -> None:
    """A standard deviation of .011 for 2,000 draws of .36 to .9."""
    for margin in (0.8, 1.0, 1.3):
        found = verdicts(simulated(asked(within=margin), 0.0))
        assert found[Conclusion.PASS] / STUDIES == pytest.approx(power_within(margin, 8), abs=0.033)


def test_a_crash_without_a_value_decides_nothing() -> None:
    """A tenth of the 16 runs of each study crashes. Without a crash, so large a difference is always found."""
    found = simulated(asked(), 9.0, crashes=0.1)
    crashed = [bool(each.claims[0].crashed) for each in found]
    assert 0.75 < sum(crashed) / STUDIES < 0.87  # 1 − .9¹⁶ = .815
    assert [each.verdict is Conclusion.INCONCLUSIVE for each in found] == crashed
