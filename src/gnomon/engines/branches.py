"""Rows of one prompt that have sampled the same so far are one branch: it passes through the model once for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from gnomon.models.attention import MIN_ROWS, SPAN
from gnomon.models.decode import Plan

__all__ = ["CROWD", "Branch", "Branches", "Prompt"]

CROWD = 0.75
"""Slots are closed up once fewer of them than this fraction are used."""


class Slotted(Protocol):
    slot: int


T = TypeVar("T", bound=Slotted)


@dataclass(slots=True, eq=False)
class Prompt:
    """A prompt whose keys and values are kept while a row needs them."""

    ids: tuple[int, ...]
    slot: int
    rows: int = 0
    """How many rows need it."""
    begun: bool = False
    """Whether it has passed through the model."""


@dataclass(slots=True, eq=False)
class Branch:
    """Rows that are still equal, and the token that they feed to the model next."""

    prompt: Prompt
    token: int
    depth: int
    """How many tokens of the rows passed before it."""
    slot: int = -1
    rows: list[int] = field(default_factory=list)
    """Numbers of the rows."""


class Branches:
    """What passes through the model next; rows are known by numbers that their owner gives them."""

    def __init__(self) -> None:
        self.branches: Slots[Branch] = Slots()
        self.prompts: Slots[Prompt] = Slots()
        self._of: dict[tuple[int, ...], Prompt] = {}
        self._fresh: dict[tuple[int, ...], Branch] = {}
        """Branches that have not passed yet, by their prompt."""
        self._copied: dict[int, int] = {}
        """Row slots to copy before the next pass: from where, by where to."""
        self._moved: list[tuple[int, int]] = []
        self._furthest = 0
        """As in `Plan`."""

    def __iter__(self) -> Iterator[Branch]:
        return (branch for branch in self.branches.items if branch is not None)

    def __contains__(self, ids: object) -> bool:
        """Whether rows that join with this prompt find its keys and values, or begin with others of it."""
        return ids in self._of

    def join(self, row: int, ids: tuple[int, ...], tokens: int) -> None:
        """A row begins. Rows of one prompt that join before the same pass share a branch.

        Args: tokens: most that the row samples.
        """
        self._furthest = max(self._furthest, (len(ids) - 1) % SPAN + tokens)
        prompt = self._of.get(ids)
        if prompt is None:
            prompt = self._of[ids] = Prompt(ids, -1)
            prompt.slot = self.prompts.add(prompt)
        prompt.rows += 1
        branch = self._fresh.get(ids)
        if branch is None:
            branch = self._fresh[ids] = Branch(prompt, ids[-1], 0)
            branch.slot = self.branches.add(branch)
        branch.rows.append(row)

    def forget(self) -> None:
        """Rows that join from now on compute their prompts anew: the weights have changed."""
        self._of, self._fresh = {}, {}

    def plan(self) -> tuple[list[int], Plan]:
        """Token ids of the next pass and its layout. Unused row slots are added up to `MIN_ROWS`."""
        new = [p for p in self.prompts.items if p is not None and not p.begun and len(p.ids) > 1]
        for prompt in new:
            prompt.begun = True
        slots = [*self.branches.items, *[None] * max(0, MIN_ROWS - len(self.branches.items))]
        plan = Plan(
            prompts=[0 if prompt is None else len(prompt.ids) - 1 for prompt in self.prompts.items],
            new=[prompt.slot for prompt in new],
            moved=self._moved,
            group=[None if branch is None else branch.prompt.slot for branch in slots],
            depth=[0 if branch is None else branch.depth for branch in slots],
            copied=[(source, to) for to, source in self._copied.items()],
            most=sum(len(branch.rows) for branch in self),
            furthest=self._furthest,
        )
        self._copied, self._moved, self._fresh = {}, [], {}
        rows = [0 if branch is None else branch.token for branch in slots]
        return [token for prompt in new for token in prompt.ids[:-1]] + rows, plan

    def grow(self, tokens: Sequence[dict[int, list[int]]]) -> None:
        """Every branch goes on with these tokens.

        Args: tokens: for every branch, in order, which of its rows go on, by the token that each sampled.
        """
        for branch, ends in zip(list(self), tokens, strict=True):
            self._lose(branch.prompt, len(branch.rows) - sum(map(len, ends.values())))
            if not ends:
                self.branches.drop(branch.slot)
            branch.depth += 1
            for index, (token, rows) in enumerate(ends.items()):
                end = Branch(branch.prompt, token, branch.depth) if index else branch
                end.token, end.rows = token, rows
                if index:
                    end.slot = self.branches.add(end)
                    self._copied[end.slot] = branch.slot
        for source, to in self.branches.close_up():
            self._copied[to] = self._copied.pop(source, source)
        self._moved += self.prompts.close_up()

    def _lose(self, prompt: Prompt, rows: int) -> None:
        prompt.rows -= rows
        if not prompt.rows:
            self.prompts.drop(prompt.slot)
            if self._of.get(prompt.ids) is prompt:
                del self._of[prompt.ids]


class Slots(Generic[T]):
    """Things in numbered slots, of which some may be empty."""

    def __init__(self) -> None:
        self.items: list[T | None] = []
        self._free: list[int] = []

    def add(self, item: T) -> int:
        """Returns: its slot."""
        if self._free:
            slot = self._free.pop()
            self.items[slot] = item
            return slot
        self.items.append(item)
        return len(self.items) - 1

    def drop(self, slot: int) -> None:
        self.items[slot] = None
        self._free.append(slot)

    def close_up(self) -> list[tuple[int, int]]:
        """Where few slots are used, move the last things into empty slots before them. Returns: from and to."""
        used = len(self.items) - len(self._free)
        if used > CROWD * len(self.items):
            return []
        holes = [slot for slot in sorted(self._free) if slot < used]
        last = [slot for slot in range(used, len(self.items)) if self.items[slot] is not None]
        moves = list(zip(last, holes, strict=True))
        for source, to in moves:
            if (item := self.items[source]) is not None:
                self.items[to], item.slot = item, to
        del self.items[used:]
        self._free = []
        return moves
