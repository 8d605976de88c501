"""Mixtures of experts, so that what an expert makes of a token does not depend on the tokens beside it.

On a CPU every product has a multiple of `MIN_ROWS` rows, since few rows take another kernel, and what the experts make
of a token is added up in their order. Other devices compute all experts together, as transformers does.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear, pad
from transformers.integrations.moe import grouped_mm_experts_forward

from gnomon.models.attention import MIN_ROWS, NAME
from gnomon.models.precision import at_least

__all__ = ["mix", "settle_experts"]


def settle_experts(model: Any) -> None:
    """Let the experts of a model compute by `mix`, where all of them are such as it computes."""
    experts = [module for module in model.modules() if hasattr(module, "_apply_gate")]
    if experts and all(each.has_gate and not each.has_post_expert_norm for each in experts):
        model.set_experts_implementation(NAME)


def mix(experts: Any, hidden: Tensor, choices: Tensor, shares: Tensor) -> Tensor:
    """[T, size] what experts with gates make of tokens; the function behind `NAME` in transformers' registry.

    Args: hidden: [T, size]; choices: [T, k] the experts of each token; shares: [T, k] how much each of them adds.
    """
    if hidden.device.type not in ("cpu", "meta"):
        out: Tensor = grouped_mm_experts_forward(experts, hidden, choices, shares)
        return out
    each = choices.flatten()
    order = each.argsort(stable=True)
    rows = torch.split(hidden.index_select(0, order // choices.shape[1]), token_counts(each, experts.num_experts))
    outputs = torch.cat([expert_output(experts, at, part) for at, part in enumerate(rows) if len(part)])
    back = torch.empty_like(order).index_copy_(0, order, torch.arange(len(order), device=order.device))
    parts = (at_least(outputs.index_select(0, back)).view(*choices.shape, -1) * shares[..., None]).unbind(1)
    return sum(parts[1:], parts[0]).to(hidden.dtype)


def token_counts(each: Tensor, number: int) -> list[int]:
    """How many tokens each of the experts has; equally many where there are no values."""
    if each.is_meta:
        return [len(each) // number + (at < len(each) % number) for at in range(number)]
    counts: list[int] = torch.bincount(each, minlength=number).tolist()
    return counts


def expert_output(experts: Any, at: int, rows: Tensor) -> Tensor:
    """[N, size] what one of the experts makes of N tokens."""
    inside = project(experts, "gate_up_proj", at, pad(rows, (0, 0, 0, -len(rows) % MIN_ROWS)))
    return project(experts, "down_proj", at, experts._apply_gate(inside))[: len(rows)]


def project(experts: Any, name: str, at: int, rows: Tensor) -> Tensor:
    """A linear layer of one of the experts."""
    weight = getattr(experts, name)[at]
    bias = getattr(experts, f"{name}_bias")[at] if experts.has_bias else None
    return linear(rows, weight.T if experts.is_transposed else weight, bias)
