"""The gated delta rule in chunks of positions, so that a whole pass and a decode step compute the same bits.

Every head keeps a state S [size, width]. A token with key k, query q, value v, decay d and rate b does

    S ← e^d · S,    S ← S + k (b · (v − Sᵀ k))ᵀ,    and reads  Sᵀ q.

Chunks begin at multiples of `CHUNK` positions. With A[i, j] = b_i · e^(d_(j+1) + … + d_i) · kᵢᵀ kⱼ for j < i, what the
tokens of a chunk add to the state is (1 + A)⁻¹ times their residuals, which need no later state than that before the
chunk. A row of (1 + A)⁻¹ follows from the rows before it. So a decode step adds one row to each table of its chunk, by
products with the same operands as in a whole pass. Exponentials are taken of whole chunks; `steady` says why.

Source: Yang et al. 2024 (Gated DeltaNet), arXiv 2412.06464, §3.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from gnomon.models.attention import QUERIES

__all__ = ["CHUNK", "Chunk", "Inputs", "after", "chunk", "outputs"]

CHUNK = 32
"""Positions of a chunk, a multiple of `attention.BLOCK`."""


class Inputs(NamedTuple):
    """Of the tokens of a pass, in at least float32."""

    query: Tensor
    """[T, heads, size]."""
    key: Tensor
    """[T, heads, size]."""
    value: Tensor
    """[T, heads, width]."""
    decay: Tensor
    """[T, heads] logarithm of what is left of the state, at most 0."""
    rate: Tensor
    """[T, heads] how much of the state at the key is replaced, 0 to 1; up to 2, beyond which its sign has turned."""


class Chunk(NamedTuple):
    """What N chunks of heads compute before they read the state."""

    both: Tensor
    """[N, 2·C, size] the keys, then the queries."""
    value: Tensor
    """[N, C, width]."""
    rate: Tensor
    """[N, C]."""
    decay: Tensor
    """[N, C]."""
    total: Tensor
    """[N, C] sum of the decays from the beginning of the chunk."""
    inverse: Tensor
    """[N, C, C] (1 + A)⁻¹."""
    weights: Tensor
    """[N, C, C] of what every token up to the query's own adds to the state."""

    @property
    def key(self) -> Tensor:
        return self.both[:, : self.value.shape[1]]

    def part(self, start: int, stop: int) -> Chunk:
        """Some of the chunks."""
        return Chunk(*(tensor[start:stop] for tensor in self))


def chunk(query: Tensor, key: Tensor, value: Tensor, decay: Tensor, rate: Tensor) -> Chunk:
    """Args: [N, C, size] or [N, C]; a token that pads the chunk has decay 0 and rate 0."""
    both, size = torch.cat([key, query], 1), key.shape[1]
    products, total = both @ key.transpose(1, 2), decay.cumsum(1)
    fade = decays(total)
    own = products[:, :size] * fade.tril(-1) * rate[..., None]
    return Chunk(both, value, rate, decay, total, inverse(own), products[:, size:] * fade)


def decays(total: Tensor) -> Tensor:
    """[N, C, C] what is left, at every query, of what the tokens up to it added to the state. Args: as in `Chunk`."""
    later = torch.ones(total.shape[1], total.shape[1], dtype=torch.bool, device=total.device).triu(1)
    return (total[..., None] - total[:, None]).masked_fill(later, -torch.inf).exp()


def outputs(chunks: Chunk, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What the queries read, the residuals, and what the tokens add to the state, [N, C, width] each.

    Args: state: [N, size, width] before the chunks.
    """
    size, reads, fade = chunks.value.shape[1], chunks.both @ state, chunks.total.exp()[..., None]
    residual = (chunks.value - fade * reads[:, :size]) * chunks.rate[..., None]
    added = chunks.inverse @ residual
    return fade * reads[:, size:] + chunks.weights @ added, residual, added


def after(state: Tensor, key: Tensor, decay: Tensor, added: Tensor) -> Tensor:
    """[N, size, width] the state after full chunks. Args: as in `outputs` and `Chunk`."""
    total = decay.cumsum(1)
    fade = (total[:, -1:] - total).exp()[..., None]
    return state * total.exp()[:, -1:, None] + (key * fade).transpose(1, 2) @ added


class Inverse(torch.autograd.Function):
    """(1 + A)⁻¹ of matrices A [N, C, C] that are zero on and above the diagonal, row by row from the first."""

    @staticmethod
    def forward(ctx: Any, own: Tensor) -> Tensor:
        size = own.shape[1]
        table = torch.eye(size, dtype=own.dtype, device=own.device).repeat(len(own), 1, 1)
        for row in range(1, size):
            first = min(row, size - QUERIES)
            table[:, row] -= (own[:, first : first + QUERIES] @ table)[:, row - first]
        ctx.save_for_backward(table)
        return table

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (table,) = ctx.saved_tensors
        turned = table.transpose(1, 2)
        gradient: Tensor = -(turned @ grads[0] @ turned)
        return gradient


def inverse(own: Tensor) -> Tensor:
    return Inverse.apply(own)  # type: ignore[no-any-return, no-untyped-call]
