"""Bits per episode, against entropies by hand, and the stated bias against its expectation by enumeration."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest

from comparison.written import write
from gnomon.comparison.bits import entropy_bits, reward_bits, shortfall
from gnomon.comparison.measures import bits
from gnomon.store import RunReader
from gnomon.types import Status

RIGHT, WRONG = Status.CORRECT, Status.WRONG


def test_entropies_by_hand() -> None:
    assert entropy_bits([1.0] * 7) == 0 and entropy_bits([]) == 0 and shortfall([]) == 0
    assert entropy_bits([0, 1, 0, 1]) == 1 and entropy_bits(range(8)) == 3
    assert entropy_bits([0, 0, 0, 1]) == pytest.approx(2 - 0.75 * math.log2(3))


@pytest.mark.parametrize(("p", "n"), [(0.5, 12), (0.3, 12), (0.2, 14)])
def test_the_bias_is_that_of_an_expectation(p: float, n: int) -> None:
    """Over all outcomes of n draws; the formula is the first order of 1/n, so a fifth of it may be missing."""
    truth = -p * math.log2(p) - (1 - p) * math.log2(1 - p)
    expected = sum(
        math.comb(n, k) * p**k * (1 - p) ** (n - k) * entropy_bits([1] * k + [0] * (n - k)) for k in range(n + 1)
    )
    assert shortfall([0, 1] * (n // 2)) == pytest.approx(truth - expected, rel=0.2)


def test_more_kinds_of_rewards_say_more() -> None:
    """The entropy of a refinement is at least that of the coarser reward."""
    for fine in itertools.product(range(3), repeat=5):
        assert entropy_bits(fine) >= entropy_bits([value > 0 for value in fine]) - 1e-12


def test_steps_of_a_run_are_read_without_failed_verdicts(tmp_path: Path) -> None:
    steps = [
        {0: [(("a",), RIGHT), (("b",), WRONG)], 1: [(("c",), RIGHT), (("d",), WRONG)]},
        {0: [(("a",), RIGHT), (("b",), RIGHT)], 1: [(("c",), RIGHT), (("d",), Status.FAILED)]},
    ]
    with RunReader(write(tmp_path / "r", {"type": "arithmetic"}, steps)) as reader:
        first, second = reward_bits(reader)
        assert (first.bits, first.episodes, first.tokens) == (1.0, 4, 4)
        assert (second.bits, second.episodes, second.bias) == (0.0, 3, 0.0)
        assert first.bias == pytest.approx(1 / (8 * math.log(2)))
        assert bits()(reader) == 0.5 and bits(1)(reader) == 0.0
