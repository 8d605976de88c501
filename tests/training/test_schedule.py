"""The learning rate over a run."""

from __future__ import annotations

import pytest

from gnomon.training.schedule import Schedule


def test_the_rate_rises_and_falls() -> None:
    schedule = Schedule(lr=1e-3, steps=10, warmup=4, min_lr_ratio=0.1)
    rates = [schedule(step) for step in range(1, 11)]
    assert rates[0] == pytest.approx(0.25e-3) and max(rates) == rates[3] == pytest.approx(1e-3)
    assert rates[-1] == pytest.approx(1e-4) and rates[3:] == sorted(rates[3:], reverse=True)


def test_a_constant_rate_is_constant_beyond_the_end_too() -> None:
    assert {Schedule(lr=1e-3, steps=3)(step) for step in range(1, 9)} == {1e-3}
    assert Schedule(lr=1e-3, steps=3, min_lr_ratio=0.5)(9) == 0.5e-3
