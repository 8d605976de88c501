"""Which correction a difference of sampler and learner asks for, and that it is told once."""

from __future__ import annotations

import pytest

from gnomon.monitoring.mismatch import DIVERGENCE, OUTSIDE, WHOLE, Mismatch, advised
from gnomon.objectives import TABLE
from gnomon.store import StepRecord


@pytest.mark.parametrize(
    ("outside", "divergence", "name"),
    [
        (0.0, 0.0, ""),
        (OUTSIDE * 0.9, DIVERGENCE * 0.9, ""),
        (0.0, DIVERGENCE, "tis"),
        (OUTSIDE, 0.0, "icepop"),
        (OUTSIDE, 1.0, "icepop"),
        (WHOLE, 0.0, "sequence_mis"),
    ],
)
def test_bounds(outside, divergence, name):
    found, why = advised({"mismatch/outside": outside, "mismatch/kl": divergence})
    assert found == name and bool(why) == bool(name)
    assert not name or TABLE[name]().corrects


def watched(corrected, *steps):
    told, notes = [], []
    watch = Mismatch(lambda token: f"<{token}>", corrected, told.append, lambda kind, body: notes.append((kind, body)))
    for number, metrics in enumerate(steps):
        watch.step(StepRecord(step=number, metrics=metrics, seconds=1.0, records=()))
    return told, notes


def test_it_is_told_once_for_each_correction_and_noted_in_every_step():
    far = {"mismatch/token": 7.0, "logp_mismatch": 0.5, "mismatch/outside": 0.002, "mismatch/kl": 0.0}
    worse = far | {"mismatch/outside": 0.02}
    told, notes = watched(False, far, far, worse, {"logp_mismatch": 0.0})
    assert ["icepop" in text for text in told] == [True, False] and "sequence_mis" in told[1]
    assert "'<7>'" in told[0] and "0.5 nats" in told[0]
    assert notes == [("mismatch", {"step": n, "token": 7, "text": "<7>", "difference": 0.5}) for n in range(3)]
    assert watched(True, far, worse) == ([], notes[:2])
