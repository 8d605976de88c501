"""The gradient of a large vocabulary, chunk by chunk, against float64 autograd over whole scores."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from gnomon.models import projection

BOUNDS = {"float32": 2e-6, "bfloat16": 5e-3, "float16": 1e-3}
"""Twice the relative rounding of a number in each."""
BENCHMARK = Path(__file__).parents[2] / "benchmarks/gradients.py"


def test_chunks_are_at_least_as_exact_as_whole_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("gradients", BENCHMARK)
    assert spec and spec.loader
    gradients = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gradients)
    monkeypatch.setattr(projection, "CHUNK", 2**16)  # Three chunks.
    monkeypatch.setattr(projection, "FEW", 1)
    lines = list(gradients.errors(tokens=48, vocabulary=2**12, size=64))
    by_dtype = {dtype: [line for line in lines if line.dtype == dtype] for dtype in BOUNDS}
    for dtype, bound in BOUNDS.items():
        ours, whole = by_dtype[dtype]
        assert max(ours.hidden, ours.head) < bound
        assert ours.head < 1.1 * whole.head and ours.hidden < 1.5 * whole.hidden
