"""What a CUDA device computes in one kernel instead of several. Nothing here changes what a CPU computes.

Starting a kernel and moving its operands through memory takes most of the time of a small model, so the
parts of a layer that move much and compute little are replaced: RMS norms, the gate behind attention, and the adapter
beside a linear layer.
"""

from __future__ import annotations

from functools import partial
from inspect import getsource
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import rms_norm, silu
from transformers.activations import SiLUActivation

from gnomon.models.kernels import compiled, compiles
from gnomon.models.precision import at_least

__all__ = ["LowRank", "fuse", "is_fused", "splits"]

GATED = "self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))"
"""How transformers writes the layer behind attention that `gated` computes."""
SILU = (torch.nn.SiLU, SiLUActivation)
PLAIN: dict[type, bool] = {}
"""What `plain` has found about classes of norms."""


def fuse(model: torch.nn.Module, exact: bool) -> None:
    """Let parts of a model compute by the kernels below where their operands allow it.

    Args: exact: training passes compute the bits of decoding, so only what both compute alike is replaced.
    """
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm") and plain(module):
            module.forward = partial(normed, module, module.forward)
        elif exact:
            continue
        elif GATED in (getsource(type(module).forward) if hasattr(module, "gate_proj") else ""):
            module.forward = partial(gated, module, module.forward)
        elif hasattr(module, "lora_A") and hasattr(module, "base_layer"):
            module.forward = partial(adapted, module, module.forward)


def is_fused(module: torch.nn.Module) -> bool:
    """Whether a norm computes by one kernel on a CUDA device."""
    return isinstance(module.forward, partial) and module.forward.func is normed


def normed(module: Any, forward: Any, hidden: Tensor) -> Tensor:
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
    rows = torch.randn(3, len(weight), generator=random, device="cpu") * torch.tensor(
        [[1e-3], [1.0], [10.0]], device="cpu"
    )
    try:
        found = functional_call(module, {"weight": some}, (rows,))
    except Exception:  # Whatever a class of norms needs beside its weight, it is not this norm.
        return False
    return torch.allclose(found, rms_norm(rows, some.shape, some, epsilon(module)), rtol=1e-4, atol=1e-6)


def gated(module: Any, forward: Any, x: Tensor) -> Tensor:
    """The layer behind attention, in training passes. What the gate lets through is computed again, not kept."""
    if not x.is_cuda or not torch.is_grad_enabled() or not isinstance(module.act_fn, SILU) or not compiles():
        return forward(x)  # type: ignore[no-any-return]
    return module.down_proj(compiled(let_through)(module.gate_proj(x), module.up_proj(x)))  # type: ignore[no-any-return]


def let_through(gate: Tensor, up: Tensor) -> Tensor:
    return silu(gate) * up


def adapted(layer: Any, forward: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """A linear layer with its adapter, which costs two thin products of matrix units: training passes in bfloat16."""
    by_units = x.is_cuda and x.dtype is torch.bfloat16 and torch.is_grad_enabled() and not args and not kwargs
    if not by_units or layer.disable_adapters or layer.merged or len(layer.active_adapters) != 1 or layer.lora_variant:
        return forward(x, *args, **kwargs)  # type: ignore[no-any-return]
    (name,) = layer.active_adapters
    down, up = layer.lora_A[name].weight, layer.lora_B[name].weight
    return LowRank.apply(x, layer.base_layer(x), down, up, layer.scaling[name])  # type: ignore[no-any-return, no-untyped-call]


class LowRank(torch.autograd.Function):
    """base + scale · x·Aᵀ·Bᵀ, with factors in float32 beside x and base in bfloat16.

    Matrix units multiply 16 bits exactly and add up in float32. A factor in float32 is the sum of numbers of 16 bits
    (`splits`), which are more columns of the same product: float32's precision without a copy of x in float32.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, base: Tensor, down: Tensor, up: Tensor, scale: float) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        inner = exact(rows, down.t()) * scale
        ctx.save_for_backward(rows, down, up, inner)
        ctx.scale, ctx.shape = scale, x.shape
        return rounded(inner, up.t(), base.reshape(-1, base.shape[-1])).view(base.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        rows, down, up, inner = ctx.saved_tensors
        slope = grads[0].reshape(-1, grads[0].shape[-1])
        by_inner = exact(slope, up) * ctx.scale
        by_up = exact(slope.t(), inner)
        by_down = exact(rows.t(), by_inner).t()
        return rounded(by_inner, down).view(ctx.shape), grads[0], by_down, by_up, None


def splits(x: Tensor, count: int) -> list[Tensor]:
    """Numbers of 16 bits whose sum is x in float32: up to 2⁻²⁴ of it for three of them, 2⁻¹⁶ for two."""
    found = []
    for _ in range(count):
        found.append(x.to(torch.bfloat16))
        x = x - found[-1]
    return found


def exact(left: Tensor, right: Tensor) -> Tensor:
    """left @ right in float32, of left in bfloat16 and right [n, columns] in float32."""
    count, columns = 3, right.shape[1]
    return wide(left, torch.cat(splits(right, count), 1)).view(len(left), count, columns).sum(1)


def wide(left: Tensor, right: Tensor) -> Tensor:
    """left @ right of numbers in bfloat16, added up and returned in float32."""
    if left.is_cuda:
        return torch.mm(left, right, out_dtype=torch.float32)
    return at_least(left) @ at_least(right)


def rounded(left: Tensor, right: Tensor, total: Tensor | None = None) -> Tensor:
    """left @ right of factors in float32, on top of a total, in bfloat16: the products that its 8 bits can tell."""
    (a, b), (c, d) = splits(left, 2), splits(right, 2)
    columns, rows = torch.cat([a, b, a], 1), torch.cat([c, c, d])
    return columns @ rows if total is None else torch.addmm(total, columns, rows)
