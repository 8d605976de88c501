"""The difference of sampler and learner as numbers, whole and cut into micro-batches."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from gnomon.learners.mismatch import mismatch
from gnomon.stats import merge


def values(stats):
    return {name: stat.value for name, stat in stats.items()}


def test_numbers_of_four_tokens():
    behavior = torch.tensor([-1.0, -2.0, -0.5, -3.0], dtype=torch.float64)
    ahead = torch.tensor([0.0, math.log(2.5), -math.log(4.0), math.log(1.9)], dtype=torch.float64)
    found = values(mismatch(behavior, behavior + ahead, torch.tensor([5, 6, 7, 8])))
    ratios = (1.0, 2.5, 0.25, 1.9)
    assert found["mismatch/mean"] == pytest.approx(sum(abs(math.log(r)) for r in ratios) / 4, rel=1e-12)
    assert found["mismatch/kl"] == pytest.approx(sum(r - 1 - math.log(r) for r in ratios) / 4, rel=1e-12)
    assert found["mismatch/outside"] == 0.5
    assert found["mismatch/p99"] == pytest.approx(math.log(4.0), rel=1e-12) and found["mismatch/token"] == 7.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sizes", [[100], [1, 99], [33, 33, 34], [100, 0]])
def test_no_cut_changes_a_number(dtype, sizes):
    draw = torch.Generator().manual_seed(0)
    behavior = -torch.rand(100, generator=draw, dtype=dtype)
    logp, tokens = behavior + 0.3 * torch.randn(100, generator=draw, dtype=dtype), torch.arange(100)
    parts = zip(*(torch.split(each, sizes) for each in (behavior, logp, tokens)), strict=True)
    found: dict = {}
    for part in parts:
        found = merge(found, mismatch(*part))
    whole = values(mismatch(behavior, logp, tokens))
    assert values(found) == pytest.approx(whole, rel=1e-12)
    gaps = sorted((logp - behavior).double().abs().tolist())
    assert whole["mismatch/p99"] == gaps[98] and gaps[99] == pytest.approx(
        float((logp - behavior).abs()[int(whole["mismatch/token"])])
    )


def test_a_difference_that_is_no_number_is_not_hidden():
    behavior = torch.tensor([-1.0, math.nan])
    found = mismatch(behavior, torch.tensor([-1.0, -1.0]), torch.tensor([3, 4]))
    assert math.isnan(found["mismatch/mean"].value) and found["mismatch/outside"].value == 0.5
    assert merge(found, mismatch(behavior[:1], behavior[:1], torch.tensor([9])))["mismatch/token"].value == 4.0
    assert replace(found["mismatch/token"], most=1.0).value == 4.0
