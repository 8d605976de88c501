"""One attention for sampler and learner, so that both compute the same bits.

Tokens travel through the model as one flat sequence without padding; only attention knows which text each is of. In
CPU fp32 five rules make a cached decode step equal to a whole pass in every bit: the softmax is written out by hand,
key lengths are multiples of `BLOCK` with exact zeros behind the last key, sums over keys are taken one span of
positions after the other, spans begin at multiples of `SPAN`, and no product ever has fewer than `QUERIES` query rows
(few rows take another kernel). Linear layers add a sixth: at least `MIN_ROWS` rows. See `docs/numerics.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from gnomon.errors import ModelError
from gnomon.models.precision import at_least

__all__ = [
    "BLOCK",
    "MIN_ROWS",
    "NAME",
    "NEVER",
    "SPAN",
    "Flat",
    "Form",
    "Layout",
    "additive",
    "attend_by_layout",
    "shares",
    "soft_cap",
]

NAME = "gnomon"
"""Name of this attention in transformers' registry."""
BLOCK = 32
"""Key lengths are multiples of this."""
SPAN = 128
"""Positions whose keys one product sums: a longer sum is cut by the kernel, at places that depend on its length."""
MIN_ROWS = 16
"""Fewest tokens of a pass; linear layers take other kernels for fewer."""
SCORES = 2**24
"""About as many scores of prompts are held at once, so that the memory of a long one grows with its length. Whole spans
of queries are computed together, which changes no bit."""
QUERIES = 4
"""Fewest query rows of a product; zero rows are put under fewer."""
Device = torch.device | str
NEVER = -1e30
"""Added to a score that must not count; its exponential is exactly zero."""


class Form(NamedTuple):
    """How a layer weighs the keys that a query sees."""

    scale: float
    """Factor on the products of queries and keys."""
    window: int | None = None
    """The last positions that a query sees, its own among them."""
    cap: float | None = None
    """As in `soft_cap`."""
    sinks: Tensor | None = None
    """[heads], as in `shares`."""


class Layout(Protocol):
    """How the flat tokens of one pass go through a model."""

    def hidden(self, model: Any, ids: Tensor) -> Tensor:
        """[T, size] last hidden states of flat tokens [T]."""
        ...


class Flat(Layout, Protocol):
    """Who attends to whom among the flat tokens of one pass, which the model takes as one row."""

    attention: ClassVar[str | None] = NAME
    """Of the models whose passes have such layouts."""
    positions: Tensor

    def hidden(self, model: Any, ids: Tensor) -> Tensor:
        out = model.base_model(input_ids=ids[None], position_ids=self.positions[None], layout=self, use_cache=False)
        return out.last_hidden_state[0]  # type: ignore[no-any-return]

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, form: Form) -> Tensor:
        """[T, heads, size] of queries [T, heads, size], keys and values [T, kv_heads, size] of the flat tokens."""
        ...


def attend_by_layout(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The function behind `NAME` in transformers' attention registry; the pass's `layout` does the work.

    Args: query [1, heads, T, size]; key and value [1, kv_heads, T, size], of the flat tokens.
    Returns: [1, T, heads, size].
    Raises: ModelError E308 where the keys are not those of the tokens.
    """
    layout: Flat = kwargs["layout"]
    form = Form(query.shape[-1] ** -0.5 if scaling is None else scaling, sliding_window, softcap, s_aux)
    layer: int = module.layer_idx  # type: ignore[assignment]
    if key.shape[2] != query.shape[2]:
        raise ModelError(
            "E308",
            "the model's attention has keys that are not of tokens, which packed passes do not compute",
            where=type(module).__name__,
            why=f"there are {key.shape[2]} keys of {query.shape[2]} tokens; it may compress the keys of earlier tokens",
            fix="policy.attention=transformers",
        )
    # Rotary functions leave different strides, and a product of few rows has another kernel for each.
    q, k, v = (states[0].transpose(0, 1).contiguous() for states in (query, key, value))
    return layout.attend(layer, q, k, v, form)[None], None


class Prefix:
    """The prompts of a pass: P of them, padded to S tokens."""

    def __init__(self, lengths: Sequence[int], device: Device = "cpu") -> None:
        self.tokens = sum(lengths)
        position = torch.arange(blocks(max(lengths)), device="cpu")
        real = position < torch.tensor(lengths, device="cpu")[:, None]
        self.real, self.place = real.to(device), real.flatten().nonzero().flatten().to(device)

    def pad(self, flat: Tensor) -> Tensor:
        """Flat prompt tokens [T, …] as [P, S, …]."""
        return spread(flat, self.place, tuple(self.real.shape))

    def attend(self, query: Tensor, key: Tensor, value: Tensor, form: Form) -> Tensor:
        """Causal attention of every prompt to itself: padded [P, S, heads, size] in, flat tokens out."""
        heads, kv_heads = query.shape[2], key.shape[2]
        # Laid out as a whole pass has them: in bfloat16 a product sums in another order over transposed rows.
        k, v = (states.transpose(1, 2).contiguous() for states in (key, value))
        prompts, length = self.real.shape
        position = torch.arange(length, device=query.device)
        step, outputs = max(1, SCORES // (prompts * heads * length * SPAN)) * SPAN, []
        for start in range(0, length, step):
            stop = min(start + step, length)  # A query sees no key behind the last of its piece.
            mask = additive(causal(position[start:stop], position[:stop], form.window)).repeat(heads // kv_heads, 1)
            q = heads_first(query[:, start:stop], kv_heads) * form.scale
            scores = soft_cap(q @ k[:, :, :stop].transpose(2, 3), form.cap) + mask
            of_queries = None if form.sinks is None else form.sinks.repeat_interleave(stop - start).view(kv_heads, -1)
            weights = shares(scores, of_queries).to(v.dtype)
            outputs.append(tokens_first(weigh(weights, v[:, :, :stop]), heads))
        return gather(torch.cat(outputs, 1).flatten(0, 1), self.place)


def product(rows: Tensor, matrix: Tensor) -> Tensor:
    """rows @ matrix by the kernel that many rows take, however few they are."""
    few = rows.shape[-2]
    return rows @ matrix if few >= QUERIES else (pad(rows, (0, 0, 0, QUERIES - few)) @ matrix)[..., :few, :]


def weigh(weights: Tensor, values: Tensor) -> Tensor:
    """weights [..., Q, K] @ values [..., K, size], whatever follows the last key that counts: span by span from the
    first."""
    total: Tensor | None = None
    for start in range(0, weights.shape[-1], SPAN):
        part = product(weights[..., start : start + SPAN], values[..., start : start + SPAN, :])
        total = part if total is None else total + part
    assert total is not None
    return total


def blocks(length: int) -> int:
    """The next multiple of `BLOCK`, at least one block."""
    return max(1, -(-length // BLOCK)) * BLOCK


class Spread(torch.autograd.Function):
    """Put the tokens [T, …] at distinct places of a zero tensor [size, …]; `Gather` is its transpose."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, index: Tensor, size: int) -> Tensor:
        ctx.save_for_backward(index)
        return tokens.new_zeros(size, *tokens.shape[1:]).index_copy_(0, index, tokens)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return grads[0].index_select(0, ctx.saved_tensors[0]), None, None


class Gather(torch.autograd.Function):
    """Take the tokens at distinct places. Unlike indexing, its backward is one copy, in a fixed order."""

    @staticmethod
    def forward(ctx: Any, padded: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.size = len(padded)
        return padded.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (grad,) = grads
        return grad.new_zeros(ctx.size, *grad.shape[1:]).index_copy_(0, ctx.saved_tensors[0], grad), None


def spread(tokens: Tensor, index: Tensor, shape: tuple[int, ...]) -> Tensor:
    return Spread.apply(tokens, index, math.prod(shape)).view(*shape, *tokens.shape[1:])  # type: ignore[no-any-return, no-untyped-call]


def gather(padded: Tensor, index: Tensor) -> Tensor:
    return Gather.apply(padded, index)  # type: ignore[no-any-return, no-untyped-call]


def heads_first(query: Tensor, kv_heads: int) -> Tensor:
    """[B, Q, heads, size] to [B, kv_heads, (heads/kv_heads)·Q, size]: heads that share keys become queries."""
    b, q, heads, size = query.shape
    return query.view(b, q, kv_heads, heads // kv_heads, size).permute(0, 2, 3, 1, 4).reshape(b, kv_heads, -1, size)


def tokens_first(out: Tensor, heads: int) -> Tensor:
    """The inverse of `heads_first`."""
    b, kv_heads, _, size = out.shape
    return out.view(b, kv_heads, heads // kv_heads, -1, size).permute(0, 3, 1, 2, 4).reshape(b, -1, heads, size)


def causal(query: Tensor, key: Tensor, window: int | None) -> Tensor:
    """[Q, K]: may the query at this place see the key at that place."""
    distance = query[:, None] - key
    return distance >= 0 if window is None else (distance >= 0) & (distance < window)


def soft_cap(scores: Tensor, cap: float | None) -> Tensor:
    """cap · tanh(scores / cap), in at least float32; the scores as they are without a cap.

    Source: Gemma Team 2024 (Gemma 2), arXiv 2408.00118, §2.
    """
    return scores if cap is None else at_least(scores).div(cap).tanh_().mul_(cap)


def shares(scores: Tensor, sinks: Tensor | None) -> Tensor:
    """[..., K] the softmax of scores. With sinks, that of the scores and one more, whose value is zero.

    It is computed by softmaxes alone: other functions round a number by its place in the tensor, and these by its row.
    Args: sinks: learned scores, one for each row or broadcast to [...].
    Source: OpenAI 2025 (gpt-oss), arXiv 2508.10925, §2.3.
    """
    weights = torch.softmax(scores, -1)
    if sinks is not None:
        top = scores.amax(-1)
        own, lost = torch.softmax(torch.stack([top, sinks.to(top.dtype).expand_as(top)], -1), -1).unbind(-1)
        weights *= (own / (own + lost * weights.amax(-1)))[..., None]
    return weights


def additive(visible: Tensor) -> Tensor:
    return torch.zeros(visible.shape, device=visible.device).masked_fill(~visible, NEVER)
