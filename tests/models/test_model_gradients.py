"""The gradient of whole models against float64 autograd, one row after the other without padding.

Both attentions × activations kept or computed again × all weights or a LoRA adapter × shared prompts or own × one
micro-batch or several.
"""

from __future__ import annotations

import importlib.util
from itertools import product
from pathlib import Path

import pytest
import torch

from gnomon.models.backends import OVERFLOWING
from gnomon.models.flex import Flex
from gnomon.models.packed import Packed

BENCHMARK = Path(__file__).parents[2] / "benchmarks/model_gradients.py"
spec = importlib.util.spec_from_file_location("model_gradients", BENCHMARK)
assert spec and spec.loader
model_gradients = importlib.util.module_from_spec(spec)
spec.loader.exec_module(model_gradients)

UNITS = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-9, torch.float16: 2.0**-12}
"""The rounding of one number."""
ROUNDINGS = 40
"""Bound of the error in such units. Two layers are some thirty operations one after the other, forward and back."""
CASES = [
    (family, dtype)
    for family, config in model_gradients.FAMILIES.items()
    for dtype in UNITS
    if dtype != torch.float16 or not config.model_type.startswith(OVERFLOWING)
]


@pytest.mark.parametrize("kind", model_gradients.KINDS)
@pytest.mark.parametrize(("family", "dtype"), CASES)
def test_the_gradient_of_every_path_is_exact_up_to_rounding(
    family: str, dtype: torch.dtype, kind: tuple[bool, bool]
) -> None:
    lines = list(model_gradients.errors(family, dtype, kinds=[kind]))
    assert len({line[2:5] for line in lines}) == len(lines) == 8
    assert {line.path for line in lines} == set(product((Packed, Flex), (False, True), kind[:1]))
    assert {line.shared for line in lines} == {kind[1]}
    assert {line.micro_batches for line in lines} == {1, 6}
    for line in lines:
        assert 0 < line.error < ROUNDINGS * UNITS[dtype], line
