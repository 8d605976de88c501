"""Gated delta layers in decoding: every row keeps a state, the tables of its last chunk and the last inputs of the
convolution. Those of a prompt are kept too, and a row begins with a copy of them.

A pass that ends no chunk may be computed twice: it writes the same values at the same places.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from gnomon.models.attention import QUERIES
from gnomon.models.decode import Decode, Plan
from gnomon.models.delta import CHUNK, Inputs, after
from gnomon.models.delta_tree import Chunks, before, convolve, shift

__all__ = ["DeltaDecode", "Recurrence"]

Pairs = Sequence[tuple[int, int]]


class DeltaDecode(Decode):
    """The layout of decoding for a model with gated delta layers."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        super().__init__(device)
        self._recurrence = Recurrence(self.device)

    def follow(self, plan: Plan) -> None:
        super().follow(plan)
        self._recurrence.follow(plan, self.most)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._recurrence.nbytes

    @property
    def shape(self) -> tuple[int, ...] | None:
        """As in `Decode`; None for a pass that ends a chunk too."""
        shape = super().shape
        return None if shape is None or self._recurrence.ends_chunk else (*shape, self._recurrence.grown)

    def convolve(self, layer: int, inputs: Tensor, weight: Tensor) -> Tensor:
        """As in `delta_layer.Recurrent`."""
        return self._recurrence.convolve(layer, inputs, weight, self.positions[-len(self.place) :])

    def delta_rule(self, layer: int, inputs: Inputs) -> Tensor:
        """As in `delta_layer.Recurrent`."""
        return self._recurrence.delta_rule(layer, inputs, self.positions[-len(self.place) :])


class Tables(NamedTuple):
    """What slots keep of a layer, [slots, heads, …]: the state before the chunk of the next token, and what `delta`
    makes of the tokens of that chunk so far."""

    state: Tensor
    """[…, size, width]."""
    key: Tensor
    """[…, C, size]."""
    decay: Tensor
    """[…, C]."""
    inverse: Tensor
    """[…, C, C]."""
    residual: Tensor
    """[…, C, width]."""
    added: Tensor
    """[…, C, width]."""


class Recurrence:
    """What the gated delta layers of one running batch keep; `follow` before each pass."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.grown = 0
        """How often a table was put in the place of another."""
        self._prompts: dict[tuple[str, int], Slots] = {}
        self._own: dict[tuple[str, int], Slots] = {}

    @property
    def nbytes(self) -> int:
        """Of all tables."""
        slots = [*self._prompts.values(), *self._own.values()]
        return sum(table.nbytes for layer in slots for table in layer.tables)

    def follow(self, plan: Plan, most: int) -> None:
        """Prepare for a pass. Args: most: row slots that may be needed until more rows join."""
        self._most, self._count = (len(plan.prompts), most), len(plan.group)
        for layers, pairs, slots in ((self._prompts, plan.moved, len(plan.prompts)), (self._own, plan.copied, most)):
            for layer in layers.values():
                self.grown += layer.room(slots)
                layer.copy(pairs)
        self._now = Pass(plan, self.device)

    @property
    def ends_chunk(self) -> bool:
        """Whether a row's state moves on by a chunk in this pass."""
        return bool(self._now.full)

    def convolve(self, layer: int, inputs: Tensor, weight: Tensor, position: Tensor) -> Tensor:
        """As in `delta_layer.Recurrent`. Args: position: [B] of the token of every row in its text."""
        width = weight.shape[1]
        prompts, own = self._slots("inputs", layer, [inputs.new_empty(0, width, inputs.shape[1])])
        cut, out = len(inputs) - self._count, []
        if self._now.texts is not None:
            out.append(self._now.texts.convolve(inputs[:cut], weight, prompts.tables[0]))
        self._begin(prompts, own)
        table, first = own.tables[0].flatten(0, 1), width * torch.arange(self._count, device=self.device)
        table.index_copy_(0, first + position % width, inputs[cut:])
        parts = (table.index_select(0, first + (position + back) % width) for back in range(1, width + 1))
        return torch.cat([*out, convolve(parts, weight)])

    def delta_rule(self, layer: int, inputs: Inputs, position: Tensor) -> Tensor:
        """As in `delta_layer.Recurrent`. Args: as in `convolve`."""
        prompts, own = self._slots("state", layer, blank(inputs))
        cut, out = len(inputs.key) - self._count, []
        if self._now.texts is not None:
            out.append(self._now.texts.delta_rule(Inputs(*(each[:cut] for each in inputs)), prompts.tables))
        self._begin(prompts, own)
        rows = Tables(*(table[: self._count] for table in own.tables))
        out.append(step(rows, Inputs(*(each[cut:] for each in inputs)), position % CHUNK))
        if full := self._now.full:
            rows.state[full] = behind(Tables(*(table[full] for table in rows)))
        return torch.cat(out)

    def _slots(self, name: str, layer: int, like: Sequence[Tensor]) -> tuple[Slots, Slots]:
        """Of the prompts and of the rows."""
        both = [layers.setdefault((name, layer), Slots(like)) for layers in (self._prompts, self._own)]
        self.grown += sum(slots.room(most) for slots, most in zip(both, self._most, strict=True))
        return both[0], both[1]

    def _begin(self, prompts: Slots, own: Slots) -> None:
        own.copy(self._now.starts, prompts)
        for table in own.tables if self._now.blank else ():
            table[self._now.blank] = 0


class Pass:
    """The rows and prompts of a pass by what happens to them. Nothing is computed unless a layer asks."""

    def __init__(self, plan: Plan, device: torch.device) -> None:
        self._plan, self._device = plan, device

    @cached_property
    def starts(self) -> list[tuple[int, int]]:
        """Rows whose first token this is, behind the slot of their prompt."""
        return [(slot, row) for slot, row in self._rows if not self._plan.depth[row] and self._plan.prompts[slot]]

    @cached_property
    def blank(self) -> list[int]:
        """Rows whose first token this is, without a prompt."""
        return [row for slot, row in self._rows if not self._plan.depth[row] and not self._plan.prompts[slot]]

    @cached_property
    def full(self) -> list[int]:
        """Rows whose token ends a chunk."""
        return [row for slot, row in self._rows if (self._plan.prompts[slot] + self._plan.depth[row] + 1) % CHUNK == 0]

    @cached_property
    def texts(self) -> Texts | None:
        """The new prompts."""
        return Texts(self._plan, self._device) if self._plan.new else None

    @property
    def _rows(self) -> list[tuple[int, int]]:
        """The slot of the prompt of every row in use, and the row."""
        return [(slot, row) for row, slot in enumerate(self._plan.group) if slot is not None]


class Slots:
    """Tables [slots, …], which grow by doubling."""

    def __init__(self, like: Sequence[Tensor]) -> None:
        """Args: like: [n, …] each, for any n."""
        self.tables = [each.new_zeros(0, *each.shape[1:]) for each in like]

    def room(self, slots: int) -> bool:
        """Hold at least so many. Returns: whether that took new tables."""
        have = len(self.tables[0])
        if slots <= have:
            return False
        more = max(slots, 2 * have) - have
        self.tables = [torch.cat([table, table.new_zeros(more, *table.shape[1:])]) for table in self.tables]
        return True

    def copy(self, pairs: Pairs, source: Slots | None = None) -> None:
        """Copy slots, (from, to). All are read before any is written."""
        if pairs:
            of, to = map(list, zip(*pairs, strict=True))
            for table, other in zip(self.tables, (source or self).tables, strict=True):
                table[to] = other[of]


class Texts:
    """The new prompts of a pass, whose tokens lie end to end."""

    def __init__(self, plan: Plan, device: torch.device) -> None:
        lengths = np.array([plan.prompts[slot] for slot in plan.new])
        ends = lengths.cumsum()
        self._branches = [(np.arange(end - length, end), 0) for end, length in zip(ends, lengths, strict=True)]
        self._chunks, self._device, self._slots = Chunks(self._branches, device), device, np.array(plan.new)
        self._last = self._chunks.owner[ends - 1]
        """The number of the last chunk of each."""
        self._lengths, self._ends = lengths, torch.from_numpy(ends - 1).to(device)

    def convolve(self, inputs: Tensor, weight: Tensor, windows: Tensor) -> Tensor:
        """As in `delta_layer.Recurrent`. The last inputs of every prompt are written into the windows."""
        width = weight.shape[1]
        table = torch.from_numpy(before(self._branches, width)).to(self._device)
        for back, part in enumerate(shift(inputs, table)):
            windows[self._slots, (self._lengths + back) % width] = part[self._ends]
        return convolve(shift(inputs, table), weight)

    def delta_rule(self, inputs: Inputs, tables: Sequence[Tensor]) -> Tensor:
        """As in `delta_layer.Recurrent`. Where a prompt ends is written into its tables."""
        heads, outputs = inputs.key.shape[1], []
        for level in self._chunks.by_level(inputs):
            outputs.append(level.out)
            ends = (level.numbers.start <= self._last) & (self._last < level.numbers.stop)
            at, chunks = self._last[ends] - level.numbers.start, level.chunks
            values = (level.state, chunks.key, chunks.decay, chunks.inverse, level.residual, level.added)
            last = Tables(*(value.view(-1, heads, *value.shape[1:])[at] for value in values))
            full = torch.from_numpy(self._lengths[ends] % CHUNK == 0).to(self._device)[:, None, None, None]
            last = last._replace(state=torch.where(full, behind(last), last.state))
            for table, value in zip(tables, last, strict=True):
                table[self._slots[ends]] = value
        return self._chunks.join(outputs)


def blank(inputs: Inputs) -> Tables:
    """The tables of no slot."""
    _, heads, size = inputs.key.shape
    width = inputs.value.shape[2]
    shapes = ((size, width), (CHUNK, size), (CHUNK,), (CHUNK, CHUNK), (CHUNK, width), (CHUNK, width))
    return Tables(*(inputs.key.new_empty(0, heads, *shape) for shape in shapes))


def behind(full: Tables) -> Tensor:
    """[slots, heads, size, width] the state after chunks that are full."""
    state, key, decay, _, _, added = (table.flatten(0, 1) for table in full)
    return after(state, key, decay, added).view(full.state.shape)


def step(tables: Tables, inputs: Inputs, offset: Tensor) -> Tensor:
    """[B, heads, width] what the queries of one token of every row read. The tables take in the token.

    What they hold behind it is of an earlier chunk, and has weight zero.
    """
    rows, heads, _ = inputs.key.shape
    query, key, value, decay, rate = (each.flatten(0, 1) for each in inputs)
    at, index = offset.repeat_interleave(heads)[:, None], torch.arange(CHUNK, device=offset.device)
    place = torch.arange(rows * heads, device=offset.device) * CHUNK + at[:, 0]

    def write(table: Tensor, values: Tensor) -> Tensor:
        table.view(-1, *table.shape[3:]).index_copy_(0, place, values)
        return table.flatten(0, 1)

    keys, total = write(tables.key, key), write(tables.decay, decay).cumsum(1)
    fade = (total.gather(1, at) - total).masked_fill(index > at, -torch.inf).exp()
    both = pad(torch.stack([key, query], 1), (0, 0, 0, QUERIES - 2))
    products, reads, grown = both @ keys.transpose(1, 2), both @ tables.state.flatten(0, 1), total.exp().gather(1, at)
    own = (products[:, 0] * fade).masked_fill(index == at, 0) * rate[:, None]
    one = (index == at).to(own.dtype) - times(own, tables.inverse.flatten(0, 1))
    write(tables.inverse, one)
    residual = write(tables.residual, (value - grown * reads[:, 0]) * rate[:, None])
    added = write(tables.added, times(one, residual))
    return (grown * reads[:, 1] + times(products[:, 1] * fade, added)).view(rows, heads, -1)


def times(row: Tensor, table: Tensor) -> Tensor:
    """row [N, C] @ table [N, C, n] by the kernel that many rows take."""
    products: Tensor = pad(row[:, None], (0, 0, 0, QUERIES - 1)) @ table
    return products[:, 0]
