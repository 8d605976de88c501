"""Layers of transformers that mix tokens by the gated delta rule or by a short convolution, on flat tokens.

Where a pass has a layout, such a layer computes what follows; else what transformers computes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import softplus
from transformers.activations import ACT2FN

from gnomon.models.delta import Inputs
from gnomon.models.precision import at_least
from gnomon.models.steady import steadily

__all__ = ["LAYERS", "Recurrent", "connect"]

LAYERS = ("OlmoHybridGatedDeltaNet", "Qwen3_5GatedDeltaNet", "Qwen3_5MoeGatedDeltaNet", "Qwen3NextGatedDeltaNet")
"""Transformers' names of the layers with the gated delta rule."""
CONVOLUTIONS = ("Lfm2ShortConv", "Lfm2MoeShortConv", "Lfm3ShortConv")
"""And of those with a gated convolution alone."""


class Recurrent(Protocol):
    """The part of a pass's layout that these layers ask."""

    def convolve(self, layer: int, inputs: Tensor, weight: Tensor) -> Tensor:
        """[T, size] the weighted sum of every token's input and of the inputs just before it in its text.

        Args: inputs: [T, size]; weight: [size, width], the last column of the token itself.
        """
        ...

    def delta_rule(self, layer: int, inputs: Inputs) -> Tensor:
        """[T, heads, width] what the queries read by the gated delta rule."""
        ...


def connect(model: torch.nn.Module) -> bool:
    """Let the layers of a model ask the layout of the pass. Returns: whether there are any."""
    layers: list[Any] = [module for module in model.modules() if type(module).__name__ in (*LAYERS, *CONVOLUTIONS)]
    for module in layers:
        module.forward = partial(mix if type(module).__name__ in LAYERS else mix_near, module, module.forward)
    return bool(layers)


def mix(module: Any, forward: Callable[..., Tensor], hidden_states: Tensor, **kwargs: Any) -> Tensor:
    """[1, T, size] what a layer makes of flat tokens."""
    layout: Recurrent | None = kwargs.get("layout")
    if layout is None:
        return forward(hidden_states, **kwargs)
    hidden = hidden_states[0]
    inputs, gate, rate, step = project(module, hidden)
    states = layout.convolve(module.layer_idx, inputs, module.conv1d.weight[:, 0])
    states = steadily(ACT2FN[module.activation], states.to(inputs.dtype))
    query, key, value = torch.split(states, [module.key_dim, module.key_dim, module.value_dim], -1)
    times = module.num_v_heads // module.num_k_heads
    query, key, value = (
        at_least(each).view(len(each), heads, -1)
        for each, heads in ((query, module.num_k_heads), (key, module.num_k_heads), (value, module.num_v_heads))
    )
    query, key = (unit(each).repeat_interleave(times, 1) for each in (query, key))
    rate = steadily(torch.sigmoid, rate) * (2 if getattr(module, "allow_neg_eigval", False) else 1)
    decay = -at_least(module.A_log).exp() * steadily(softplus, at_least(step) + module.dt_bias)
    heads = layout.delta_rule(
        module.layer_idx, Inputs(query * module.head_k_dim**-0.5, key, value, decay, at_least(rate))
    )
    norm, leave = (module.o_norm, module.o_proj) if hasattr(module, "o_proj") else (module.norm, module.out_proj)
    gated = norm(heads.to(hidden.dtype).flatten(0, 1), gate.reshape(-1, module.head_v_dim))
    out: Tensor = leave(gated.view(len(hidden), -1))
    return out[None]


def mix_near(module: Any, forward: Callable[..., Tensor], hidden_states: Tensor, **kwargs: Any) -> Tensor:
    """As `mix`, by a convolution of a few tokens between two gates."""
    layout: Recurrent | None = kwargs.get("layout")
    if layout is None:
        return forward(hidden_states, **kwargs)
    enter, leave, inputs = module.in_proj(hidden_states[0]).chunk(3, -1)
    states = layout.convolve(module.layer_idx, enter * inputs, module.conv.weight[:, 0])
    states = states if module.conv.bias is None else states + module.conv.bias
    out: Tensor = module.out_proj(leave * states.to(inputs.dtype))
    return out[None]


def project(module: Any, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of tokens [T, size]: queries, keys and values end to end, the gates, and what becomes rates and decays."""
    if hasattr(module, "q_proj"):
        heads = torch.cat([module.q_proj(hidden), module.k_proj(hidden), module.v_proj(hidden)], -1)
        return heads, module.g_proj(hidden), module.b_proj(hidden), module.a_proj(hidden)
    if hasattr(module, "in_proj_qkv"):
        return module.in_proj_qkv(hidden), module.in_proj_z(hidden), module.in_proj_b(hidden), module.in_proj_a(hidden)
    parts = module.fix_query_key_value_ordering(module.in_proj_qkvz(hidden)[None], module.in_proj_ba(hidden)[None])
    query, key, value, gate, rate, step = (part[0].flatten(1) for part in parts)
    return torch.cat([query, key, value], -1), gate, rate, step


def unit(vectors: Tensor) -> Tensor:
    """Of length 1, as transformers computes it."""
    return vectors * torch.rsqrt((vectors * vectors).sum(-1, keepdim=True) + 1e-6)
