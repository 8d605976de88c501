"""Gated delta layers over texts that share beginnings: every chunk of a text that has new tokens begins with the state
that the chunk before it left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, reduce
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gnomon.models.delta import CHUNK, Chunk, Inputs, after, chunk, outputs
from gnomon.models.precision import at_least
from gnomon.models.trie import Places

__all__ = ["Chunks", "Level", "OverTrie", "before", "convolve", "shift"]

Branch = tuple[Places, int]
"""As in `Trie.branches`."""


class Level(NamedTuple):
    """N chunks that begin at the same position, for each head."""

    numbers: range
    """Of the chunks."""
    state: Tensor
    """[N·heads, size, width] before them."""
    chunks: Chunk
    out: Tensor
    """[N·heads, C, width], as are the next two; of `delta.outputs`."""
    residual: Tensor
    added: Tensor


class Chunks:
    """The chunks of texts that have new tokens, level by level."""

    def __init__(self, branches: Sequence[Branch], device: torch.device | str) -> None:
        tokens = sum(len(path) - old for path, old in branches)
        pieces = sorted(
            ((at, begin) for at, (path, old) in enumerate(branches)
             for begin in range(old - old % CHUNK, len(path), CHUNK)),
            key=lambda piece: piece[1],
        )  # fmt: skip
        self.owner, place = np.empty(tokens, dtype=np.int64), np.empty(tokens, dtype=np.int64)
        """[T] number of the chunk in which each token is new."""
        table, real = np.empty((len(pieces), CHUNK), dtype=np.int64), np.empty((len(pieces), CHUNK), dtype=bool)
        for number, (at, begin) in enumerate(pieces):
            path, old = branches[at]
            inside = np.arange(CHUNK)
            real[number] = begin + inside < len(path)
            table[number] = path[np.minimum(begin + inside, len(path) - 1)]
            own = path[max(old, begin) : begin + CHUNK]
            self.owner[own], place[own] = number, number * CHUNK + max(old - begin, 0) + np.arange(len(own))
        self.table, self.padding, self.place = (torch.from_numpy(each).to(device) for each in (table, ~real, place))
        """[N, C] the token at every place, the last one of the text again behind its end; [N, C] whether a place is
        behind the end; [T] the place of every token, where the chunk has it as a new one."""
        self.levels: list[range] = []
        """Numbers of the chunks that begin at the same position, from the first one."""
        self.parents: list[Tensor] = []
        """For each level, the places of the chunks before its own in the level before. Not read in the first."""
        for begin, group in groupby(range(len(pieces)), key=lambda number: pieces[number][1]):
            level = list(group)
            before = [self.owner[branches[pieces[number][0]][0][begin - 1]] for number in level]
            start = self.levels[-1].start if begin else 0
            self.parents.append((torch.tensor(before, dtype=torch.int64, device="cpu") - start).to(device))
            self.levels.append(range(level[0], level[-1] + 1))

    def run(self, inputs: Inputs) -> Tensor:
        """[T, heads, width] what the queries read."""
        return self.join([level.out for level in self.by_level(inputs)])

    def by_level(self, inputs: Inputs) -> Iterator[Level]:
        """All chunks, level by level."""
        heads = inputs.key.shape[1]
        whole, state = self._chunks(inputs), self._blank(inputs)
        for at, numbers in enumerate(self.levels):
            some = whole.part(numbers.start * heads, numbers.stop * heads)
            level = Level(numbers, state, some, *outputs(some, state))
            yield level
            if at + 1 < len(self.levels):
                ends = after(state, some.key, some.decay, level.added).view(len(numbers), heads, *state.shape[1:])
                state = ends.index_select(0, self.parents[at + 1]).flatten(0, 1)

    def join(self, outs: Sequence[Tensor]) -> Tensor:
        """[T, heads, width] what the queries read. Args: as `Level.out`, of all levels."""
        out = torch.cat(list(outs))
        out = out.view(len(self.table), -1, *out.shape[1:]).transpose(1, 2).flatten(0, 1)
        return out.index_select(0, self.place)

    def _chunks(self, inputs: Inputs) -> Chunk:
        """[N·heads, …] of every chunk and head."""
        index, shape = self.table.flatten(), self.table.shape
        tiles = [each.index_select(0, index).view(*shape, *each.shape[1:]).transpose(1, 2) for each in inputs]
        tiles[3:] = [each.masked_fill(self.padding[:, None], 0) for each in tiles[3:]]
        return chunk(*(each.flatten(0, 1).contiguous() for each in tiles))

    def _blank(self, inputs: Inputs) -> Tensor:
        """The state before the first token of each text."""
        count = len(self.levels[0]) * inputs.key.shape[1]
        return inputs.key.new_zeros(count, inputs.key.shape[2], inputs.value.shape[2])


class OverTrie:
    """The part of a whole pass's layout that gated delta layers ask. It computes nothing before one does."""

    branches: Sequence[Branch]
    """Of the trie."""
    positions: Tensor
    """As in `Flat`."""

    @cached_property
    def _chunks(self) -> Chunks:
        return Chunks(self.branches, self.positions.device)

    @cached_property
    def _steps(self) -> dict[int, Tensor]:
        """Tables of `before` by their width."""
        return {}

    def convolve(self, layer: int, inputs: Tensor, weight: Tensor) -> Tensor:
        return Convolution.apply(inputs, weight, self._before(weight.shape[1]))  # type: ignore[no-any-return, no-untyped-call]

    def delta_rule(self, layer: int, inputs: Inputs) -> Tensor:
        return self._chunks.run(inputs)

    def _before(self, width: int) -> Tensor:
        """As `before`."""
        if width not in self._steps:
            self._steps[width] = torch.from_numpy(before(self.branches, width)).to(self.positions.device)
        return self._steps[width]


def before(branches: Sequence[Branch], width: int) -> Places:
    """[width, T] the token that stands width − 1, …, 0 places before each; T where the text begins later."""
    tokens = sum(len(path) - old for path, old in branches)
    table = np.full((width, tokens), tokens)
    for path, old in branches:
        for back in range(width):
            first = max(old, back)
            table[width - 1 - back, path[first:]] = path[first - back : max(first, len(path)) - back]
    return table


def convolve(parts: Iterable[Tensor], weight: Tensor) -> Tensor:
    """[T, size] the weighted sum of inputs, in at least float32.

    Args: parts: of width, from the input of the token furthest back; weight: [size, width].
    """
    terms: Iterator[Tensor] = (
        at_least(part) * column for part, column in zip(parts, at_least(weight).T.contiguous(), strict=True)
    )
    return reduce(Tensor.add, terms)


class Convolution(torch.autograd.Function):
    """A causal convolution of every channel by itself, [T, size] in and out; it keeps its input once."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, table: Tensor) -> Tensor:
        ctx.save_for_backward(inputs, weight, table)
        return convolve(shift(inputs, table), weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        inputs, weight, table = ctx.saved_tensors
        (grad,) = grads
        by_inputs = grad.new_zeros(len(inputs) + 1, inputs.shape[1])
        for back, column in zip(table, at_least(weight).T, strict=True):
            by_inputs.index_add_(0, back, grad * column)
        by_weight = torch.stack([(grad * part).sum(0) for part in shift(inputs, table)], 1)
        return by_inputs[:-1].to(inputs.dtype), by_weight.to(weight.dtype), None


def shift(inputs: Tensor, table: Tensor) -> Iterator[Tensor]:
    """[T, size] the inputs of the tokens before, for every row of the table of `before`."""
    padded = torch.cat([inputs, inputs.new_zeros(1, inputs.shape[1])])
    return (padded.index_select(0, back) for back in table)
