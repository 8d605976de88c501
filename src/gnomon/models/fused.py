"""What a CUDA device computes in one kernel instead of several. Nothing here changes what a CPU computes.

Starting a kernel and moving its operands through memory takes most of the time of a small model, so the parts of a
layer that move much and compute little are replaced: RMS norms, the gate behind attention, and the adapter beside a
linear layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from inspect import getsource
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import rms_norm, silu
from transformers.activations import SiLUActivation

from gnomon.models.kernels import compile_kernel, compiles
from gnomon.models.precision import at_least

__all__ = ["LowRank", "fuse", "is_fused", "plain", "split"]

GATED = "self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))"
"""How transformers writes the layer behind attention that `gate_layer` computes."""
SILU = (torch.nn.SiLU, SiLUActivation)
PLAIN: dict[type, bool] = {}
"""What `plain` has found about classes of norms."""


def fuse(model: torch.nn.Module, exact: bool) -> None:
    """Let parts of a model compute by the kernels below where their operands allow it.

    Args: exact: training passes compute the bits of decoding, so only what both compute alike is replaced.
    """
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm") and plain(module):
            module.forward = partial(norm, module, module.forward)
        elif exact:
            continue
        elif GATED in (getsource(type(module).forward) if hasattr(module, "gate_proj") else ""):
            module.forward = partial(gate_layer, module, module.forward)
        elif hasattr(module, "lora_A") and hasattr(module, "base_layer"):
            module.forward = partial(adapt_linear, module, module.forward)


def is_fused(module: torch.nn.Module) -> bool:
    """Whether a norm computes by one kernel on a CUDA device."""
    return isinstance(module.forward, partial) and module.forward.func is norm


def norm(module: Any, forward: Any, hidden: Tensor) -> Tensor:
    """An RMS norm in one kernel. Its backward pass keeps the input as it is, and one number of each row."""
    weight = module.weight
    if not hidden.is_cuda or hidden.dtype != weight.dtype:
        return forward(hidden)  # type: ignore[no-any-return]
    return rms_norm(hidden, weight.shape, weight, epsilon(module))


def epsilon(module: Any) -> float:
    return float(getattr(module, "variance_epsilon", getattr(module, "eps", 0.0)))


def plain(module: torch.nn.Module) -> bool:
    """Whether a norm computes weight · x / √(mean x² + ε). It is asked, with another weight than its own: Gemma's, for
    one, adds 1 to it."""
    if type(module) not in PLAIN:
        PLAIN[type(module)] = answers(module)
    return PLAIN[type(module)]


def answers(module: torch.nn.Module) -> bool:
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() != 1:
        return False
    random = torch.Generator(device="cpu").manual_seed(0)
    some = torch.rand(len(weight), generator=random, device="cpu") + 0.5
    sizes = torch.tensor([[1e-3], [1.0], [10.0]], device="cpu")
    rows = sizes * torch.randn(3, len(weight), generator=random, device="cpu")
    try:
        output = functional_call(module, {"weight": some}, (rows,))
    except Exception:  # Whatever a class of norms needs beside its weight, it is not this norm.
        return False
    return torch.allclose(output, rms_norm(rows, some.shape, some, epsilon(module)), rtol=1e-4, atol=1e-6)


def gate_layer(module: Any, forward: Any, x: Tensor) -> Tensor:
    """The layer behind attention, in training passes. What the gate lets through is computed again, not kept."""
    if not x.is_cuda or not torch.is_grad_enabled() or not isinstance(module.act_fn, SILU) or not compiles():
        return forward(x)  # type: ignore[no-any-return]
    return module.down_proj(compile_kernel(let_through)(module.gate_proj(x), module.up_proj(x)))  # type: ignore[no-any-return]


def let_through(gate: Tensor, up: Tensor) -> Tensor:
    return silu(gate) * up


def adapt_linear(layer: Any, forward: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """A linear layer with its adapter, which costs two thin products of matrix units: training passes in bfloat16."""
    by_units = x.is_cuda and x.dtype is torch.bfloat16 and torch.is_grad_enabled() and not args and not kwargs
    if not by_units or layer.disable_adapters or layer.merged or len(layer.active_adapters) != 1 or layer.lora_variant:
        return forward(x, *args, **kwargs)  # type: ignore[no-any-return]
    (name,) = layer.active_adapters
    down, up = layer.lora_A[name].weight, layer.lora_B[name].weight
    return LowRank.apply(x, layer.base_layer(x), down, up, layer.scaling[name])  # type: ignore[no-any-return, no-untyped-call]


class LowRank(torch.autograd.Function):
    """base + scale · x·Aᵀ·Bᵀ, with factors in float32 beside x and base in bfloat16.

    Matrix units multiply 16 bits exactly and add up in float32. A factor is the sum of two numbers of 16 bits, which
    are more columns of the same product: nearly the precision of float32, without a copy of x in float32.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, base: Tensor, down: Tensor, up: Tensor, scale: float) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        a, b = split(down), split(up)
        inner = split(whole(wide(rows, torch.cat(a).t())) * scale)
        ctx.save_for_backward(rows, *a, *b, *inner)
        ctx.scale, ctx.shape = scale, x.shape
        return torch.addmm(base.reshape(-1, base.shape[-1]), beside(inner), facing(b).t()).view(base.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        rows, a_high, a_low, b_high, b_low, *inner = ctx.saved_tensors
        slope = grads[0].reshape(-1, grads[0].shape[-1])
        by_inner = split(whole(wide(slope, torch.cat([b_high, b_low], 1))) * ctx.scale)
        by_up = whole(wide(slope.t(), torch.cat(inner, 1)))
        by_down = whole(wide(rows.t(), torch.cat(by_inner, 1))).t()
        by_x = beside(by_inner) @ facing((a_high.t(), a_low.t())).t()
        return by_x.view(ctx.shape), grads[0], by_down, by_up, None


def split(x: Tensor) -> tuple[Tensor, Tensor]:
    """Two numbers in bfloat16 whose sum is x in float32, up to 2⁻¹⁶ of it."""
    high = x.to(torch.bfloat16)
    return high, (x - high).to(torch.bfloat16)


def whole(parts: Tensor) -> Tensor:
    """[n, r] of columns [n, 2r] whose halves are to be added."""
    high, low = parts.chunk(2, 1)
    return high + low


def wide(left: Tensor, right: Tensor) -> Tensor:
    """left @ right of numbers in bfloat16, added up and returned in float32."""
    if left.is_cuda:
        return torch.mm(left, right, out_dtype=torch.float32)
    return at_least(left) @ at_least(right)


def beside(parts: Sequence[Tensor]) -> Tensor:
    """The left factor of a product of split numbers; `facing` is the right one. Low times low is too small to count."""
    high, low = parts
    return torch.cat([high, low, high], 1)


def facing(parts: Sequence[Tensor]) -> Tensor:
    high, low = parts
    return torch.cat([high, high, low], 1)
