"""The layout of a whole pass: every distinct token of some texts once. For scoring and training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gnomon.models.attention import NEVER, SPAN, Flat, Form, shares, soft_cap
from gnomon.models.delta_tree import OverTrie
from gnomon.models.precision import at_least
from gnomon.models.tiles import Band, Rows, Span, bands
from gnomon.models.trie import Trie

__all__ = ["Packed"]


class Packed(OverTrie, Flat):
    """Who attends to whom in a trie.

    Tiles of equal shape are computed together. A query sees the keys of its own span in one product, and those of every
    earlier span in a product that it shares with all tiles that have the span in common.
    """

    def __init__(self, trie: Trie, device: torch.device | str = "cpu") -> None:
        self.branches, self.positions, self.bands = trie.branches, trie.positions.to(device), bands(trie, device)
        self._rows: dict[tuple[int, int], Rows] = {}
        self._masks: dict[int | None, list[Tensor]] = {}

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, form: Form) -> Tensor:
        return Attention.apply(query, key, value, form.sinks, self, form)  # type: ignore[no-any-return, no-untyped-call]

    def rows(self, heads: int, kv_heads: int) -> Rows:
        """Where the vectors of tiles lie in a layer with so many heads."""
        if (heads, kv_heads) not in self._rows:
            self._rows[heads, kv_heads] = Rows(self.bands, self.positions, heads, kv_heads)
        return self._rows[heads, kv_heads]

    def masks(self, window: int | None) -> list[Tensor]:
        """What is added to the scores of every band, of keys in the span."""
        if window not in self._masks:
            self._masks[window] = [band.mask(window) for band in self.bands]
        return self._masks[window]


class Operands(NamedTuple):
    """What a band computes from: queries [N, Q', size], keys and values of the span [N, K, size] and of stems
    [M, S, size]; N = kv_heads·B, Q' = heads/kv_heads·Q, M = kv_heads·P."""

    query: Tensor
    key: Tensor
    value: Tensor
    far_key: Tensor
    far_value: Tensor


class Layer:
    """Queries, keys and values of a layer, [T, heads, size], and what each band of the layout makes of them."""

    def __init__(self, layout: Packed, query: Tensor, key: Tensor, value: Tensor, form: Form) -> None:
        self.bands, self.rows = layout.bands, layout.rows(query.shape[1], key.shape[1])
        self._kv_heads, self._masks = key.shape[1], layout.masks(form.window)
        self._query, *self._near = (states.reshape(-1, states.shape[2]) for states in (query, key, value))
        several = any(band.before for band in self.bands)
        self._far = [states.transpose(0, 1).contiguous() for states in (key, value)] if several else []
        sinks = None if form.sinks is None else form.sinks.view(key.shape[1], 1, -1, 1)
        self.form = form._replace(sinks=sinks)

    def operands(self, at: int) -> Operands:
        """What the band at this place computes from."""
        band, count = self.bands[at], self._kv_heads * self.bands[at].tiles
        query = self._query.index_select(0, self.rows.query[at]).mul_(self.form.scale)
        near = [x.index_select(0, self.rows.key[at]).view(count, band.keys, x.shape[1]) for x in self._near]
        if band.before:
            far = [x.index_select(1, band.stems).view(-1, band.before, x.shape[2]) for x in self._far]
        else:
            far = [x.new_empty(self._kv_heads, 0, x.shape[1]) for x in self._near]
        return Operands(query.view(count, -1, query.shape[1]), *near, *far)

    def weigh(self, at: int, operands: Operands) -> tuple[Tensor, Tensor | None]:
        """As `weigh`; every call has the same bits."""
        return weigh(self.bands[at], operands, self._masks[at], self.form)


class Attention(torch.autograd.Function):
    """Softmax attention of a packed pass, [T, heads, size] in and out. Its products are written out, forward and back.

    The backward pass computes the weights of each band again, to the same bits, so that memory grows with the tokens
    and not with their square. Gradients of a key that lies in several tiles are summed in a fixed order.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, sinks: Tensor | None, layout: Packed, form: Form
    ) -> Tensor:
        layer = Layer(layout, query, key, value, form)
        size = value.shape[2]
        out = value.new_empty(layer.rows.queries, size)
        for at, (band, piece) in enumerate(zip(layer.bands, split(out, layer.rows.query), strict=True)):
            operands = layer.operands(at)
            weights, _ = layer.weigh(at, operands)
            sum_spans(band, weights, operands, piece.view(len(operands.query), -1, size))
        ctx.layout, ctx.form = layout, form._replace(sinks=None)
        ctx.save_for_backward(query, key, value, sinks)
        return out.index_select(0, layer.rows.out).view(*query.shape[:2], size)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, sinks = ctx.saved_tensors
        layer = Layer(ctx.layout, query, key, value, ctx.form._replace(sinks=sinks))
        rows, by_out = layer.rows, grads[0].reshape(-1, value.shape[2])
        by_query = by_out.new_empty(rows.queries, query.shape[2])
        of_query = split(by_query, rows.query)
        totals = [torch.empty_like(states, memory_format=torch.contiguous_format) for states in (key, value)]
        by_sink = None if sinks is None else at_least(torch.zeros_like(sinks))
        for span in rows.spans:
            near = [by_out.new_empty(span.keys, total.shape[2]) for total in totals]
            pieces = (split(x, rows.key[span.bands.start : span.bands.stop]) for x in near)
            for at, *of_keys in zip(span.bands, *pieces, strict=True):
                operands = layer.operands(at)
                weights, slope = layer.weigh(at, operands)
                grad = by_out.index_select(0, rows.query[at]).index_fill_(0, rows.padding[at], 0)
                views = [x.view(like.shape) for x, like in zip((of_query[at], *of_keys), operands[:3], strict=True)]
                grad = grad.view(*operands.query.shape[:2], -1)
                far = gradients(layer.bands[at], operands, weights, slope, grad, by_sink, *views)
                for total, part in zip(totals, far, strict=True):
                    add_far(total, layer.bands[at], part)
            for total, part in zip(totals, near, strict=True):
                add_near(total, span, part)
        by_query = by_query.index_select(0, rows.out).mul_(ctx.form.scale).view(query.shape)
        return by_query, *totals, None if by_sink is None else by_sink.to(sinks.dtype), None, None


def weigh(band: Band, operands: Operands, mask: Tensor, form: Form) -> tuple[Tensor, Tensor | None]:
    """[N, Q', S + K] the weights of earlier keys and of those of the span, and the derivatives of capped scores.

    Args: mask: added to scores of keys of the span; form: its queries are scaled already, its sinks are
        [kv_heads, 1, heads/kv_heads, 1].
    """
    count, queries, _ = operands.query.shape
    scores = operands.query.new_empty(count, queries, band.before + band.keys)
    torch.bmm(operands.query, operands.key.transpose(1, 2), out=scores[..., band.before :])
    if band.before:
        scores[..., : band.before] = band.apart(torch.bmm(band.aside(operands.query), operands.far_key.transpose(1, 2)))
    scores = soft_cap(at_least(scores), form.cap)
    slope = None if form.cap is None else 1 - (scores / form.cap).square()
    by_tile = scores.view(-1, band.tiles, queries // band.queries, band.queries, scores.shape[2])
    by_tile[..., band.before :] += mask
    outside = band.outside(form.window)
    if outside is not None:
        by_tile[..., : band.before].masked_fill_(outside, NEVER)
    weights = shares(by_tile, form.sinks).view(scores.shape).to(operands.value.dtype)
    return weights, None if slope is None else slope.to(operands.value.dtype)


def sum_spans(band: Band, weights: Tensor, operands: Operands, out: Tensor) -> None:
    """Write [N, Q', size], the weighted values, span by span from the first."""
    torch.bmm(weights[..., band.before :], operands.value, out=out)
    if band.before:
        aside = band.aside(weights[..., : band.before])
        total = torch.bmm(aside[..., :SPAN], operands.far_value[:, :SPAN])
        for start in range(SPAN, band.before, SPAN):
            total += torch.bmm(aside[..., start : start + SPAN], operands.far_value[:, start : start + SPAN])
        torch.add(band.apart(total), out, out=out)


def gradients(
    band: Band,
    operands: Operands,
    weights: Tensor,
    slope: Tensor | None,
    grad: Tensor,
    by_sink: Tensor | None,
    by_query: Tensor,
    by_key: Tensor,
    by_value: Tensor,
) -> tuple[Tensor, Tensor]:
    """Write the gradients of the queries, and of keys and values of the span, and add to those of the sinks, [heads].
    Returns: those of the stems.

    Args: grad: of `sum_spans`, zero where there is no token.
    """
    before = band.before
    by_score = torch.empty_like(weights)
    torch.bmm(grad, operands.value.transpose(1, 2), out=by_score[..., before:])
    torch.bmm(weights[..., before:].transpose(1, 2), grad, out=by_value)
    if before:
        aside = band.aside(grad)
        by_score[..., :before] = band.apart(torch.bmm(aside, operands.far_value.transpose(1, 2)))
        far_by_value = torch.bmm(band.aside(weights[..., :before]).transpose(1, 2), aside)
    by_score = torch._softmax_backward_data(by_score, weights, -1, weights.dtype)
    if by_sink is not None:  # The gradients of a row's scores and of its sink add up to zero.
        by_head = by_score.view(-1, band.tiles, weights.shape[1] // band.queries, band.queries * weights.shape[2])
        by_sink -= by_head.sum((1, 3), dtype=by_sink.dtype).flatten()
    if slope is not None:
        by_score *= slope
    torch.bmm(by_score[..., before:], operands.key, out=by_query)
    torch.bmm(by_score[..., before:].transpose(1, 2), operands.query, out=by_key)
    if not before:
        return operands.far_key, operands.far_value  # Both are empty.
    aside = band.aside(by_score[..., :before])
    by_query += band.apart(torch.bmm(aside, operands.far_key))
    return torch.bmm(aside.transpose(1, 2), band.aside(operands.query)), far_by_value


def add_far(total: Tensor, band: Band, part: Tensor) -> None:
    """Add to [T, kv_heads, size] the gradients of the keys of a band's stems, all of them in earlier spans."""
    if band.before:
        total.index_add_(0, band.stems, part.view(total.shape[1], -1, total.shape[2]).transpose(0, 1))


def add_near(total: Tensor, span: Span, part: Tensor) -> None:
    """Put into [T, kv_heads, size] the gradients of the keys of a span, from all places where they lie."""
    total.index_copy_(0, span.own, part.index_select(0, span.own_at).view(-1, *total.shape[1:]))
    total.index_add_(0, span.older, part.index_select(0, span.older_at).view(-1, *total.shape[1:]))


def split(rows: Tensor, parts: Sequence[Tensor]) -> Sequence[Tensor]:
    """The rows in pieces, as many in each as the part has."""
    return torch.split(rows, [len(part) for part in parts])
