"""The layout of decoding: rows of different lengths in one batch, which join and leave between two passes.

Keys and values stand in slots that are allocated ahead and written in place. What a slot holds behind the tokens of
its row is never read: its weight is exactly zero. So a row's bits depend neither on its slot nor on its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from gnomon.models.attention import QUERIES, SPAN, Flat, Form, Prefix, additive, blocks, shares, soft_cap, weigh
from gnomon.models.kernels import compiles

__all__ = ["Decode", "Plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one pass holds: the tokens of new prompts, end to end, then one token of every row slot."""

    prompts: Sequence[int]
    """Length of the prompt in every prompt slot, in tokens before its rows begin."""
    new: Sequence[int]
    """Prompt slots whose tokens are in this pass, in order."""
    moved: Sequence[tuple[int, int]]
    """Prompt slots to copy first, from and to."""
    group: Sequence[int | None]
    """The prompt slot of every row slot; None for a slot that nobody uses, whose token means nothing."""
    depth: Sequence[int]
    """How far into its row the token of every row slot stands."""
    copied: Sequence[tuple[int, int]]
    """Row slots to copy first, from and to."""
    most: int
    """Row slots that may be needed until more rows join: memory is taken once for all of them."""
    furthest: int
    """Places of keys that a row may need until more rows join: no more memory is taken."""


class Decode(Flat):
    """The layout of the passes of one running batch; `follow` before each of them.

    Whole spans of a prompt are kept once for all its rows; what it has beyond them begins the keys of every row.
    """

    positions: Tensor
    """Of every token of the pass in its own sequence."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        self._prompts: dict[int, Slots] = {}
        self._own: dict[int, Slots] = {}
        """Of the layers with attention."""
        self._zeros: dict[tuple[int, ...], Tensor] = {}
        """Tables of `_fill` by kv_heads, folds and last dimension; their rows past the first `folds` stay zero."""
        self._tables = 0
        """How often a table was put in the place of another."""

    def follow(self, plan: Plan) -> None:
        """Prepare for a pass."""
        group, self.lanes = seat(plan.group, len(plan.prompts))
        whole = [length // SPAN * SPAN for length in plan.prompts]
        offsets = [plan.prompts[slot] - whole[slot] + depth for slot, depth in zip(group, plan.depth, strict=True)]
        self.far_size, self.near_size = max(whole), blocks(max(offsets) + 1)
        self.most, self.furthest = max(plan.most, len(group)), plan.furthest
        for layer in self._prompts.values():
            self._tables += layer.room(len(plan.prompts), blocks(max(plan.prompts)))
            layer.copy(plan.moved)
        for layer in self._own.values():
            self._tables += layer.room(self.most, self.near_size, plan.furthest)
            layer.copy(plan.copied)
        self.longest = max(plan.prompts)
        self.prompts = self._tensor(plan.prompts)
        """[P] length of every prompt."""
        self._group, self.group, self.place = group, self._tensor(group), self._tensor(offsets)
        """[B] the prompt of every row, and where its token stands among its own keys."""
        self.new = self._tensor(plan.new)
        self.prefix = Prefix([plan.prompts[slot] for slot in plan.new], self.device) if plan.new else None
        begun = [row for row, slot in enumerate(plan.group) if slot is not None and not plan.depth[row]]
        self.begun = self._tensor(begun)
        """Rows whose first token this is."""
        self.tail = max((plan.prompts[group[row]] % SPAN for row in begun), default=0)
        positions = self.prompts[self.group] + self._tensor(plan.depth)
        self.far = additive(self._upto(self.far_size) < self._tensor(whole)[:, None])[:, None, None]
        self.near = additive(self._upto(self.near_size) <= self.place[:, None])[:, None, None]
        self.back = positions[:, None] - self._upto(self.far_size)
        """[B, far_size] how far back every key of the prompt is."""
        self.positions = positions
        if self.prefix is not None:
            self.positions = torch.cat([self.prefix.place % self.prefix.real.shape[1], positions])
        self._aside: dict[int, tuple[Tensor, Tensor]] = {}
        """As in `_lanes`, by kv_heads."""

    @property
    def nbytes(self) -> int:
        """Of what is kept of all layers."""
        slots = [*self._prompts.values(), *self._own.values()]
        return sum(slot.keys.nbytes + slot.values.nbytes for slot in slots)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Passes with the same one run the same kernels on the same tables, whatever the values in `moving` are. None
        for a pass that begins prompts or rows, and for the first of a batch."""
        if self.prefix is not None or self.tail or not self._own:
            return None
        return len(self.place), len(self.prompts), self.far_size, self.near_size, self.lanes, self._tables

    @property
    def moving(self) -> list[Tensor]:
        """What differs between passes of the same shape."""
        aside = chain.from_iterable(map(self._lanes, self._heads)) if self.far_size else ()
        return [self.positions, self.place, self.near, self.far, self.back, *aside]

    @moving.setter
    def moving(self, values: Sequence[Tensor]) -> None:
        self.positions, self.place, self.near, self.far, self.back, *aside = values
        self._aside = dict(zip(self._heads, zip(aside[::2], aside[1::2], strict=True), strict=False))

    @property
    def _heads(self) -> list[int]:
        """Numbers of heads of keys that layers have."""
        return sorted({slots.keys.shape[1] for slots in self._own.values()})

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, form: Form) -> Tensor:
        if layer not in self._own:
            self._prompts[layer], self._own[layer] = Slots(key, value), Slots(key, value)
        cut = 0 if self.prefix is None else self.prefix.tokens
        prompts, own = self._prompts[layer], self._own[layer]
        self._tables += prompts.room(len(self.prompts), blocks(self.longest))
        self._tables += own.room(self.most, self.near_size, self.furthest)
        if self.prefix is None:
            self._remember(prompts, own, key, value)
            return self._rows(query, prompts, own, form)
        q, k, v = (self.prefix.pad(states[:cut]) for states in (query, key, value))
        for table, states in ((prompts.keys, k), (prompts.values, v)):
            table[self.new, :, : states.shape[1]] = states.transpose(1, 2)
        self._remember(prompts, own, key[cut:], value[cut:])
        begun = self.prefix.attend(q, k, v, form)
        return torch.cat([begun, self._rows(query[cut:], prompts, own, form)])

    def _remember(self, prompts: Slots, own: Slots, key: Tensor, value: Tensor) -> None:
        """Write the tokens of the rows, and in front of a row's first one the end of its prompt behind whole spans."""
        if self.tail:
            group = self.group[self.begun]
            at = (self.prompts[group] // SPAN * SPAN)[:, None] + self._upto(self.tail)
            at = at.clamp_max(prompts.keys.shape[2] - 1)
            for table, states in ((own.keys, prompts.keys), (own.values, prompts.values)):
                table[self.begun, :, : self.tail] = states.transpose(1, 2)[group[:, None], at].transpose(1, 2)
        own.write(self.place, key, value)

    def _rows(self, query: Tensor, prompts: Slots, own: Slots, form: Form) -> Tensor:
        """One query of every row, [B, heads, size], to the whole spans of its prompt and to its own keys."""
        keys, values = own.first(len(query), self.near_size)
        scale, window, cap, sinks = form
        q = query.reshape(len(query), keys.shape[1], -1, query.shape[-1]) * scale
        sinks = None if sinks is None else sinks.view(q.shape[1:3])
        near = soft_cap((self._fill(q) @ keys.transpose(2, 3))[:, :, : q.shape[2]], cap) + self.near
        if window is not None:
            near = near + additive(self.place[:, None] - self._upto(self.near_size) < window)[:, None, None]
        if not self.far_size:
            return self._sum(shares(near, sinks).to(values.dtype), values, None)
        far_keys, far_values = prompts.first(len(self.prompts), self.far_size)
        far = self._apart(soft_cap(self._together(q) @ far_keys.transpose(2, 3), cap) + self.far)
        if window is not None:
            far = far + additive(self.back < window)[:, None, None]
        weights = shares(torch.cat([far, near], -1), sinks).to(values.dtype)
        far, near = torch.split(weights, [self.far_size, self.near_size], -1)
        return self._sum(near, values, self._apart(weigh(self._together(far), far_values)))

    def _sum(self, near: Tensor, values: Tensor, total: Tensor | None) -> Tensor:
        """The values of a row's own keys, one span after the other, on top of what its prompt's add up to."""
        for start in range(0, self.near_size, SPAN):
            weights = self._fill(near[..., start : start + SPAN])
            part = (weights @ values[:, :, start : start + SPAN])[:, :, : near.shape[2]]
            total = part if total is None else total + part
        assert total is not None
        return total.flatten(1, 2)

    def _tensor(self, values: Sequence[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self.device)

    def _upto(self, count: int) -> Tensor:
        """0 … count − 1."""
        return torch.arange(count, device=self.device)

    def _fill(self, x: Tensor) -> Tensor:
        """x [B, kv_heads, folds, n] with zero rows under it, up to `QUERIES`: a product of fewer has another kernel."""
        folds = x.shape[2]
        if folds >= QUERIES:
            return x
        rows, form = len(x), tuple(x.shape[1:])
        table = self._zeros.get(form)
        if table is None or rows > len(table):
            table = self._zeros[form] = x.new_zeros(self.most, x.shape[1], QUERIES, x.shape[3])
            self._tables += 1
        table[:rows, :, :folds] = x
        return table[:rows]

    def _together(self, x: Tensor) -> Tensor:
        """[B, kv_heads, folds, n] to [P, kv_heads, lanes·folds, n]: one product serves all rows of a prompt.

        A lane without a row repeats one; nobody reads what becomes of it.
        """
        kv_heads, folds = x.shape[1:3]
        index = self._lanes(kv_heads)[0]
        return x.flatten(0, 1)[index].view(len(self.prompts), kv_heads, self.lanes * folds, -1)

    def _apart(self, x: Tensor) -> Tensor:
        """The inverse of `_together`."""
        kv_heads = x.shape[1]
        index = self._lanes(kv_heads)[1]
        lanes = x.view(len(self.prompts) * kv_heads * self.lanes, -1, x.shape[-1])
        return lanes[index].view(-1, kv_heads, *lanes.shape[1:])

    def _lanes(self, kv_heads: int) -> tuple[Tensor, Tensor]:
        """Which row and head stand in every lane of every prompt and head, and the inverse of it."""
        if kv_heads not in self._aside:
            group = torch.tensor(self._group, dtype=torch.int64, device="cpu")
            order = torch.argsort(group, stable=True)
            count = torch.bincount(group, minlength=len(self.prompts))
            lane = torch.empty_like(group)
            lane[order] = torch.arange(len(group), device="cpu") - (torch.cumsum(count, 0) - count)[group[order]]
            head = torch.arange(kv_heads, device="cpu")
            apart = ((group[:, None] * kv_heads + head) * self.lanes + lane[:, None]).flatten()
            together = torch.zeros(len(self.prompts) * kv_heads * self.lanes, dtype=torch.int64, device="cpu")
            together[apart] = torch.arange(len(apart), device="cpu")
            self._aside[kv_heads] = together.to(self.device), apart.to(self.device)
        return self._aside[kv_heads]


class Slots:
    """Keys and values of one layer, [slots, kv_heads, places, size] each; they grow by doubling up to what may be
    needed, and never shrink."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        """Args: keys and values, [T, kv_heads, size]: of multi-head latent attention they have different sizes."""
        self.keys, self.values = (like.new_zeros(0, like.shape[1], 0, like.shape[2]) for like in (keys, values))

    def room(self, slots: int, places: int, furthest: int | None = None) -> bool:
        """Hold at least so many. Args: furthest: places that may be needed later. Returns: whether that took new
        tables."""
        have, _, length, _ = self.keys.shape
        if slots <= have and places <= length:
            return False
        target = capacity(length, places)
        shape = capacity(have, slots), max(places, min(target, blocks(furthest or target)))
        self.keys, self.values = (grow(table, *shape) for table in (self.keys, self.values))
        return True

    def first(self, slots: int, places: int) -> tuple[Tensor, Tensor]:
        """Keys and values of the first slots, as far as these places."""
        return self.keys[:slots, :, :places], self.values[:slots, :, :places]

    def write(self, positions: Tensor, keys: Tensor, values: Tensor) -> None:
        """Put one token, [B, kv_heads, size], at a place of each of the first slots."""
        alike = keys.shape == values.shape and keys.stride(2) == values.stride(2) == 1
        if positions.is_cuda and compiles() and alike:
            from gnomon.models import write_kernel

            write_kernel.write(self.keys, self.values, positions, keys, values)
            return
        _, kv_heads, length, _ = self.keys.shape
        head = torch.arange(len(positions) * kv_heads, device=positions.device)
        where = head * length + positions.repeat_interleave(kv_heads)
        for table, states in ((self.keys, keys), (self.values, values)):
            table.view(-1, table.shape[3]).index_copy_(0, where, states.reshape(-1, table.shape[3]))

    def copy(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy slots, all of them read before any is written."""
        if pairs:
            source, to = (torch.tensor(places, device=self.keys.device) for places in zip(*pairs, strict=True))
            for table in (self.keys, self.values):
                table[to] = table[source]


def capacity(have: int, needed: int) -> int:
    return have if needed <= have else max(needed, 2 * have)


def grow(old: Tensor, slots: int, places: int) -> Tensor:
    """The same slots in a larger table."""
    table = old.new_zeros(slots, old.shape[1], places, old.shape[3])
    table[: old.shape[0], :, : old.shape[2]] = old
    return table


def seat(group: Sequence[int | None], prompts: int) -> tuple[list[int], int]:
    """The prompt of every row, with an idle row put where rows are fewest; and the most rows of a prompt."""
    count = [0] * prompts
    for prompt in group:
        if prompt is not None:
            count[prompt] += 1
    seats = []
    for prompt in group:
        if prompt is None:
            prompt = min(range(prompts), key=count.__getitem__)
            count[prompt] += 1
        seats.append(prompt)
    return seats, max(QUERIES, *count)
