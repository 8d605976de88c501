"""Tiles of a trie: the new tokens of a text within one span of positions, and where their vectors lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gnomon.models.attention import SPAN, additive, blocks
from gnomon.models.trie import Places, Trie

__all__ = ["Band", "Rows", "Span", "bands"]

Device = torch.device | str


class Tile(NamedTuple):
    """The new tokens of a text within one span of positions."""

    path: Places
    """Where the tokens of the text lie in the trie, up to the end of the tile."""
    start: int
    """Position of the first new token."""

    @property
    def stem(self) -> Places:
        """The tokens of earlier spans."""
        return self.path[: self.start - self.start % SPAN]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Tokens of earlier spans, new tokens, and tokens of the tile's span, the last two in whole blocks."""
        before = len(self.stem)
        return before, blocks(len(self.path) - self.start), blocks(len(self.path) - before)


def tiles(trie: Trie) -> Iterator[Tile]:
    for path, old in trie.branches:
        for start, end in pairwise([old, *range(old - old % SPAN + SPAN, len(path), SPAN), len(path)]):
            yield Tile(path[:end], start)


class Band:
    """B tiles of one shape: Q queries and K keys of their own span, padded at the end, and S keys of earlier spans.

    Tiles that share the earlier spans stand together; they have P different ones, *stems*. A stem has as many *lanes*
    as any has tiles, so that one product serves all of them.
    """

    def __init__(self, before: int, queries: int, keys: int, tiles: Sequence[Tile], device: Device) -> None:
        self.before, self.queries, self.keys, self.tiles = before, queries, keys, len(tiles)
        start = np.array([tile.start for tile in tiles])[:, None]
        end = np.array([len(tile.path) for tile in tiles])[:, None]
        query_position, key_position = start + np.arange(queries), before + np.arange(keys)
        last = np.minimum(query_position, end - 1)
        self.query = np.stack([tile.path[at] for tile, at in zip(tiles, last, strict=True)])
        """[B, Q] tokens; the last one again where there is none."""
        last_key = np.minimum(key_position, end - 1)
        self.key = np.stack([tile.path[at] for tile, at in zip(tiles, last_key, strict=True)])
        """[B, K] tokens; the last one again where there is none."""
        self.asks = query_position < end
        """[B, Q] whether there is a token."""
        self.own, self.older = (key_position >= start) & (key_position < end), key_position < start
        """[B, K] whether a key is of a new token of the tile, and whether it is of one that another tile has."""
        self.place = torch.from_numpy(last - before).to(device)
        """[B, Q] how far into the span each query stands."""
        stem = [int(tile.stem[-1]) if before else -1 for tile in tiles]
        first = [at for at, name in enumerate(stem) if at == 0 or name != stem[at - 1]]
        self.stem = np.stack([tiles[at].stem for at in first])
        """[P, S] tokens."""
        self.stems = torch.from_numpy(self.stem.flatten()).to(device)
        count = np.diff([*first, len(tiles)])[:, None]
        lane = np.arange(int(count.max()))
        self.lanes, self.full = len(lane), bool((lane < count).all())
        self.taken = torch.from_numpy((lane < count).flatten()).to(device)
        """[P·lanes] whether a tile stands in a lane."""
        player = np.array(first)[:, None] + np.minimum(lane, count - 1)
        self.player = torch.from_numpy(player.flatten()).to(device)
        """[P·lanes] the tile in a lane; the last one of the stem again where there is none."""

    def mask(self, window: int | None) -> Tensor:
        """[B, 1, Q, K] what is added to the scores of keys in the span."""
        back = self.place[:, None, :, None] - torch.arange(self.keys, device=self.place.device)
        return additive(back >= 0 if window is None else (back >= 0) & (back < window))

    def outside(self, window: int | None) -> Tensor | None:
        """[B, 1, Q, S] which earlier keys a window leaves out; None where it leaves out none."""
        if window is None or window >= self.before + self.keys:
            return None
        first = self.place[:, None, :, None] + (self.before - window + 1)
        return torch.arange(self.before, device=self.place.device) < first

    def aside(self, x: Tensor) -> Tensor:
        """[kv_heads·B, n, m] of tiles to [kv_heads·P, lanes·n, m] of stems, zero in lanes without a tile."""
        if not self.full:
            x = torch.unflatten(x, 0, (-1, self.tiles)).index_select(1, self.player)
            x.masked_fill_(~self.taken[:, None, None], 0)
        return x.reshape(-1, self.lanes * x.shape[-2], x.shape[-1])

    def apart(self, x: Tensor) -> Tensor:
        """The inverse of `aside`."""
        x = torch.unflatten(x, 1, (self.lanes, -1)).flatten(0, 1)
        return x if self.full else torch.unflatten(x, 0, (-1, len(self.taken)))[:, self.taken].flatten(0, 1)


def bands(trie: Trie, device: Device) -> list[Band]:
    """All tiles of a trie, by shape."""
    by_shape: dict[tuple[int, int, int], list[Tile]] = {}
    for tile in tiles(trie):
        by_shape.setdefault(tile.shape, []).append(tile)
    return [Band(*shape, group, device) for shape, group in sorted(by_shape.items())]


class Span(NamedTuple):
    """Bands whose keys are of one span of positions, and where the keys of its tokens lie in them."""

    bands: range
    keys: int
    """Rows of keys in all its bands, which lie end to end, each [kv_heads, B, K]."""
    own: Tensor
    """[N] the tokens of the span."""
    own_at: Tensor
    """[N·kv_heads] where each token's key lies in the tile that has it as a new token."""
    older: Tensor
    """[M] tokens whose keys lie in other tiles too."""
    older_at: Tensor
    """[M·kv_heads] where those lie."""


class Rows:
    """Which rows of [T·heads, size] vectors a band needs, and which of its rows are whose.

    A band's queries lie [kv_heads, B, heads/kv_heads, Q] and its keys [kv_heads, B, K]. Bands lie end to end.
    """

    def __init__(self, bands: Sequence[Band], positions: Tensor, heads: int, kv_heads: int) -> None:
        self.device, self.kv_heads = positions.device, kv_heads
        head, fold = np.arange(kv_heads), np.arange(heads // kv_heads)
        self.query: list[Tensor] = []
        self.padding: list[Tensor] = []
        """Rows of a band's queries where there is no token."""
        self.key: list[Tensor] = []
        out = np.empty((len(positions), heads), dtype=np.int64)
        self.queries = 0
        """Rows of all bands."""
        for band in bands:
            query = band.query[None, :, None] * heads + (head[:, None] * len(fold) + fold)[:, None, :, None]
            self.query.append(self._take(query))
            empty = np.broadcast_to(~band.asks[None, :, None], query.shape)
            self.padding.append(self._take(empty.flatten().nonzero()[0]))
            self.key.append(self._take(band.key * kv_heads + head[:, None, None]))
            at = self.queries + np.arange(query.size).reshape(query.shape).transpose(1, 3, 0, 2)
            out[band.query[band.asks]] = at[band.asks].reshape(-1, heads)
            self.queries += query.size
        self.out = self._take(out)
        """[T·heads] where each token's query lies."""
        alike = [list(some) for _, some in groupby(range(len(bands)), key=lambda at: bands[at].before)]
        self.spans = [self._span(bands, range(some[0], some[-1] + 1)) for some in alike]

    def _span(self, bands: Sequence[Band], places: range) -> Span:
        own, own_at, older, older_at = [], [], [], []
        keys = 0
        for band in bands[places.start : places.stop]:
            at = keys + np.arange(self.kv_heads * band.key.size).reshape(-1, *band.key.shape).transpose(1, 2, 0)
            own.append(band.key[band.own])
            own_at.append(at[band.own])
            older.append(band.key[band.older])
            older_at.append(at[band.older])
            keys += self.kv_heads * band.key.size
        return Span(places, keys, *(self._take(np.concatenate(rows)) for rows in (own, own_at, older, older_at)))

    def _take(self, rows: Places) -> Tensor:
        return torch.from_numpy(rows.flatten()).to(self.device)
