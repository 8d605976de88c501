"""What `Flex` needs on a device: an operation without values that has its memory and its products."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from gnomon.models.attention import Form
from gnomon.models.flex import Flex
from gnomon.models.trie import Trie

__all__ = ["PlannedFlex"]


class PlannedFlex(Flex):
    """The same pass on the meta device. Its products are those of the pairs that see each other."""

    def __init__(self, trie: Trie, device: torch.device | str = "meta") -> None:
        self.branches, self.positions = trie.branches, trie.positions.to(device)
        self.key_counts = trie.positions + 1
        """[T] keys that every query sees."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, form: Form) -> Tensor:
        pairs = int(self.key_counts.clamp(max=form.window).sum()) if form.window else int(self.key_counts.sum())
        output: Tensor = planned_attention(query, key, value, pairs)[0]
        return output


@torch.library.custom_op("gnomon::planned_attention", mutates_args=())
def planned_attention(query: Tensor, key: Tensor, value: Tensor, pairs: int) -> tuple[Tensor, Tensor]:
    """Output [T, heads, size], and log-sum-exp [T, heads] in float32, which the backward pass reads."""
    raise NotImplementedError


@planned_attention.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, pairs: int) -> tuple[Tensor, Tensor]:
    heads = query.shape[:2]
    return query.new_empty(*heads, value.shape[2]), query.new_empty(heads, dtype=torch.float32)


@torch.library.custom_op("gnomon::planned_attention_backward", mutates_args=())
def planned_backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, lse: Tensor, pairs: int
) -> tuple[Tensor, Tensor, Tensor]:
    raise NotImplementedError


@planned_backward.register_fake
def _(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, lse: Tensor, pairs: int
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def setup(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, int], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:3], *output)
    ctx.pairs = inputs[3]


def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
    return *planned_backward(grad, *ctx.saved_tensors, ctx.pairs), None


planned_attention.register_autograd(backward, setup_context=setup)


@register_flop_formula(torch.ops.gnomon.planned_attention, get_raw=True)
def forward_flops(query: Tensor, key: Tensor, value: Tensor, pairs: int, **_: Any) -> int:
    """Two products: scores, and weighted values."""
    return 2 * pairs * query.shape[1] * (query.shape[2] + value.shape[2])


@register_flop_formula(torch.ops.gnomon.planned_attention_backward, get_raw=True)
def backward_flops(grad: Tensor, query: Tensor, *rest: Any, **_: Any) -> int:
    """Five products: the scores again, and the gradients of weights, values, queries and keys."""
    pairs = int(rest[-1])
    return 2 * pairs * query.shape[1] * (3 * query.shape[2] + 2 * grad.shape[2])
