"""The layout of a whole pass: every distinct token of some texts once. For scoring and training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gnomon.models.attention import SPAN, capped
from gnomon.models.precision import at_least
from gnomon.models.tiles import Band, Rows, bands
from gnomon.models.trie import Trie

__all__ = ["Packed"]


class Packed:
    """Who attends to whom in a trie.

    Tiles of equal shape are computed together. A query sees the keys of its own span in one product, and those of every
    earlier span in a product that it shares with all tiles that have the span in common.
    """

    def __init__(self, trie: Trie, device: torch.device | str = "cpu") -> None:
        self.positions, self.bands = trie.positions.to(device), bands(trie, device)
        self._rows: dict[tuple[int, int], Rows] = {}
        self._masks: dict[int | None, list[tuple[Tensor, Tensor | None]]] = {}

    def attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None, cap: float | None
    ) -> Tensor:
        return Attention.apply(query, key, value, self, scale, window, cap)  # type: ignore[no-any-return, no-untyped-call]

    def rows(self, heads: int, kv_heads: int) -> Rows:
        """Where the vectors of tiles lie in a layer with so many heads."""
        if (heads, kv_heads) not in self._rows:
            self._rows[heads, kv_heads] = Rows(self.bands, self.positions, heads, kv_heads)
        return self._rows[heads, kv_heads]

    def masks(self, window: int | None) -> list[tuple[Tensor, Tensor | None]]:
        """What is added to the scores of every band."""
        if window not in self._masks:
            self._masks[window] = [band.masks(window) for band in self.bands]
        return self._masks[window]


class Seen(NamedTuple):
    """What a band computes from: queries [N, Q', size], keys and values of the span [N, K, size] and of stems
    [M, S, size]; N = kv_heads·B, Q' = heads/kv_heads·Q, M = kv_heads·P."""

    query: Tensor
    key: Tensor
    value: Tensor
    far_key: Tensor
    far_value: Tensor


class Attention(torch.autograd.Function):
    """Softmax attention of a packed pass, [T, heads, size] in and out. Its products are written out, forward and back.

    Gradients of a key that lies in several tiles are summed in a fixed order.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        layout: Packed,
        scale: float,
        window: int | None,
        cap: float | None,
    ) -> Tensor:
        heads, kv_heads, size = query.shape[1], key.shape[1], value.shape[2]
        rows = layout.rows(heads, kv_heads)
        q, k, v = (states.reshape(-1, states.shape[2]) for states in (query, key, value))
        out = v.new_empty(rows.queries, size)
        saved: list[Tensor | None] = []
        pieces = split(out, rows.query)
        for at, (band, masks, piece) in enumerate(zip(layout.bands, layout.masks(window), pieces, strict=True)):
            seen = Seen(
                q.index_select(0, rows.query[at]).mul_(scale).view(kv_heads * band.tiles, -1, q.shape[1]),
                *(x.index_select(0, rows.key[at]).view(kv_heads * band.tiles, band.keys, x.shape[1]) for x in (k, v)),
                *(
                    x.index_select(0, rows.stem[at]).view(kv_heads * len(band.stem), band.before, x.shape[1])
                    for x in (k, v)
                ),
            )
            weights, slope = weigh(band, seen, masks, cap)
            summed(band, weights, seen, piece.view(len(seen.query), -1, size))
            saved += [*seen, weights, slope]
        ctx.rows, ctx.bands, ctx.scale, ctx.shapes = rows, layout.bands, scale, (query.shape, key.shape, value.shape)
        ctx.save_for_backward(*saved)
        return out.index_select(0, rows.out).view(*query.shape[:2], size)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None, None]:
        rows: Rows = ctx.rows
        found = grads[0].reshape(-1, grads[0].shape[2])
        by_query = found.new_empty(rows.queries, ctx.shapes[0][2])
        near = [found.new_empty(rows.keys, shape[2]) for shape in ctx.shapes[1:]]
        far: list[tuple[Tensor, Tensor]] = []
        pieces = zip(split(by_query, rows.query), *(split(x, rows.key) for x in near), strict=True)
        for at, (band, (seen, weights, slope), out) in enumerate(
            zip(ctx.bands, of_bands(ctx.saved_tensors), pieces, strict=True)
        ):
            grad = found.index_select(0, rows.query[at]).index_fill_(0, rows.padding[at], 0)
            views = [x.view(like.shape) for x, like in zip(out, seen[:3], strict=True)]
            far.append(gradients(band, seen, weights, slope, grad.view(*seen.query.shape[:2], -1), *views))
        by_key, by_value = (
            together(rows, ctx.bands, x, [pair[at] for pair in far], shape)
            for at, (x, shape) in enumerate(zip(near, ctx.shapes[1:], strict=True))
        )
        return (
            by_query.index_select(0, rows.out).mul_(ctx.scale).view(ctx.shapes[0]),
            by_key,
            by_value,
            None,
            None,
            None,
            None,
        )


def weigh(
    band: Band, seen: Seen, masks: tuple[Tensor, Tensor | None], cap: float | None
) -> tuple[Tensor, Tensor | None]:
    """[N, Q', S + K] the weights of earlier keys and of those of the span, and the derivatives of capped scores."""
    count, queries, _ = seen.query.shape
    scores = seen.query.new_empty(count, queries, band.before + band.keys)
    torch.bmm(seen.query, seen.key.transpose(1, 2), out=scores[..., band.before :])
    if band.before:
        scores[..., : band.before] = band.apart(torch.bmm(band.aside(seen.query), seen.far_key.transpose(1, 2)))
    scores = capped(at_least(scores), cap)
    slope = None if cap is None else 1 - (scores / cap).square()
    by_tile = scores.view(-1, band.tiles, queries // band.queries, band.queries, scores.shape[2])
    by_tile[..., band.before :] += masks[0]
    if masks[1] is not None:
        by_tile[..., : band.before] += masks[1]
    return torch.softmax(scores, -1).to(seen.value.dtype), None if slope is None else slope.to(seen.value.dtype)


def summed(band: Band, weights: Tensor, seen: Seen, out: Tensor) -> None:
    """Write [N, Q', size], the weighted values, span by span from the first."""
    torch.bmm(weights[..., band.before :], seen.value, out=out)
    if band.before:
        aside = band.aside(weights[..., : band.before])
        total = torch.bmm(aside[..., :SPAN], seen.far_value[:, :SPAN])
        for start in range(SPAN, band.before, SPAN):
            total += torch.bmm(aside[..., start : start + SPAN], seen.far_value[:, start : start + SPAN])
        torch.add(band.apart(total), out, out=out)


def gradients(
    band: Band,
    seen: Seen,
    weights: Tensor,
    slope: Tensor | None,
    grad: Tensor,
    by_query: Tensor,
    by_key: Tensor,
    by_value: Tensor,
) -> tuple[Tensor, Tensor]:
    """Write the gradients of the queries, and of keys and values of the span. Returns: those of the stems.

    Args: grad: of `summed`, zero where there is no token.
    """
    before = band.before
    by_score = torch.empty_like(weights)
    torch.bmm(grad, seen.value.transpose(1, 2), out=by_score[..., before:])
    torch.bmm(weights[..., before:].transpose(1, 2), grad, out=by_value)
    if before:
        aside = band.aside(grad)
        by_score[..., :before] = band.apart(torch.bmm(aside, seen.far_value.transpose(1, 2)))
        far_by_value = torch.bmm(band.aside(weights[..., :before]).transpose(1, 2), aside)
    by_score = torch._softmax_backward_data(by_score, weights, -1, weights.dtype)
    if slope is not None:
        by_score *= slope
    torch.bmm(by_score[..., before:], seen.key, out=by_query)
    torch.bmm(by_score[..., before:].transpose(1, 2), seen.query, out=by_key)
    if not before:
        return seen.far_key, seen.far_value  # Both are empty.
    aside = band.aside(by_score[..., :before])
    by_query += band.apart(torch.bmm(aside, seen.far_key))
    return torch.bmm(aside.transpose(1, 2), band.aside(seen.query)), far_by_value


def together(rows: Rows, found: Sequence[Band], near: Tensor, far: Sequence[Tensor], shape: torch.Size) -> Tensor:
    """[T, kv_heads, size] the gradient of every key, from all places where it lies."""
    total = near.index_select(0, rows.own).view(shape)
    total.index_add_(0, rows.older, near.index_select(0, rows.older_at).view(-1, *shape[1:]))
    for band, part in zip(found, far, strict=True):
        by_token = part.view(shape[1], band.stem.size, shape[2]).transpose(0, 1)
        total.index_add_(0, band.stems, by_token)
    return total


def split(rows: Tensor, parts: Sequence[Tensor]) -> Sequence[Tensor]:
    """The rows in pieces, as many in each as the part has."""
    return torch.split(rows, [len(part) for part in parts])


def of_bands(saved: Sequence[Tensor]) -> Iterator[tuple[Seen, Tensor, Tensor | None]]:
    """What every band computed from, its weights, and the derivatives of capped scores."""
    for at in range(0, len(saved), 7):
        yield Seen(*saved[at : at + 5]), saved[at + 5], saved[at + 6]
