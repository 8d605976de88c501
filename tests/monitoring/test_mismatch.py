"""Which correction a difference of sampler and learner asks for, and that it is told once."""

from __future__ import annotations

import pytest
import torch

from gnomon.monitoring.mismatch import DIVERGENCE, OUTSIDE, WHOLE, Mismatch, advise_correction, in_float16
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
    found, why = advise_correction({"mismatch/outside": outside, "mismatch/kl": divergence})
    assert found == name and bool(why) == bool(name)
    assert not name or TABLE[name]().corrects


def watched(corrected, *steps, finer=""):
    told, notes = [], []
    watch = Mismatch(
        lambda token: f"<{token}>", corrected, finer, told.append, lambda kind, body: notes.append((kind, body))
    )
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
    finer = in_float16("bfloat16", "bfloat16", "qwen3")
    told, _ = watched(False, far, finer=finer)
    assert told[0].endswith(f" In a new run, {finer}") and "policy.dtype=float16" in told[0]


DTYPES = ("float32", "bfloat16", "float16")


@pytest.mark.parametrize("engine", DTYPES)
@pytest.mark.parametrize("learner", DTYPES)
def test_float16_is_named_for_what_is_bfloat16_and_never_for_models_that_overflow_in_it(learner, engine):
    found = in_float16(learner, engine, "qwen3")
    assert ("policy.dtype=float16" in found) == (learner == "bfloat16")
    assert ("engine.dtype=float16" in found) == (engine == "bfloat16" != learner)
    for family in ("gemma2", "gemma3", "gemma3_text", "glm4"):
        assert in_float16(learner, engine, family) == ""


def test_float16_does_round_eight_times_finer():
    assert torch.finfo(torch.bfloat16).eps == 8 * torch.finfo(torch.float16).eps
