"""A number is rounded alike wherever it stands among the activations of a pass."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch.nn.functional import gelu, silu
from transformers import AutoModelForCausalLM

from gnomon.models.attention import NAME
from gnomon.models.policy import Policy
from gnomon.models.steady import LANES, steadily
from models.kinds import KINDS


@pytest.mark.parametrize("function", [silu, gelu, torch.sigmoid])
def test_what_is_left_over_is_rounded_as_the_rest(function) -> None:
    values = torch.randn(4 * LANES, generator=torch.Generator().manual_seed(0))
    whole = function(values)
    for count in range(1, len(values)):
        assert torch.equal(steadily(function, values[:count]), whole[:count])
    for width in (20, 36, 100):  # A part of wider rows, as the gate of a product that has gate and value.
        wide = torch.randn(LANES, 2 * width, generator=torch.Generator().manual_seed(0))[:, :width]
        whole = steadily(function, wide)
        assert all(torch.equal(steadily(function, wide[:count]), whole[:count]) for count in range(1, LANES))


@pytest.mark.parametrize("kind", ["qwen3", "gemma3"])
def test_activations_of_a_token_do_not_depend_on_the_number_of_tokens(kind: str) -> None:
    """In layers of size 48, of which an odd number of tokens leaves a part over."""
    config = deepcopy(KINDS[kind])
    config.intermediate_size = 48
    model = AutoModelForCausalLM.from_config(config, attn_implementation=NAME).eval()
    Policy(model, None)  # type: ignore[arg-type] # It reads no text.
    layer = next(module for module in model.modules() if hasattr(module, "act_fn"))
    values = torch.randn(31, 48, generator=torch.Generator().manual_seed(0))
    whole = layer.act_fn(values)
    assert all(torch.equal(layer.act_fn(values[:count]), whole[:count]) for count in range(1, 31))
