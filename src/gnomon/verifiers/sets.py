"""Several items in any order: a set, or a multiset where repeats count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from gnomon.verifiers.number import rational
from gnomon.verifiers.slot import Answered, Malformed
from gnomon.verifiers.text import Rule, normal

__all__ = ["Repeats", "SetMatch"]

MAX_ITEMS = 1000
BRACKETS = {"{": "}", "[": "]", "(": ")"}


class Repeats(StrEnum):
    """How repeated items are treated."""

    COUNTED = "counted"
    """A multiset: every item must occur as often as in the reference."""
    IGNORED = "ignored"
    """Repeats count once."""
    REFUSED = "refused"
    """The answer is malformed."""


@dataclass(frozen=True, kw_only=True)
class SetMatch(Answered):
    """The answer is a list of items in any order, with or without brackets. The reference is a list, set or text.

    Extra items are wrong as well as missing ones, so listing everything earns nothing.
    """

    separator: str = ","
    items: Literal["text", "number"] = "text"
    """How items are compared: as texts by `rules`, or as exact numbers."""
    rules: tuple[Rule, ...] = (Rule.SPACES,)
    repeats: Repeats = Repeats.REFUSED
    partial: bool = False
    """Pay |intersection| / |union| instead of 0 or 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "rules", tuple(Rule(rule) for rule in self.rules))
        object.__setattr__(self, "repeats", Repeats(self.repeats))
        if not self.separator or self.items not in ("text", "number"):
            raise ValueError(f"separator {self.separator!r} or items {self.items!r} is invalid")

    def accepts(self, answer: str, gold: Any) -> float:
        answers, right = self._count(self.split(answer)), self._gold(gold)
        if answers == right:
            return 1.0
        shared, either = (answers & right).total(), (answers | right).total()
        return shared / either if self.partial else 0.0

    def require_gold(self, gold: Any) -> None:
        text = self.correct_text(gold)
        if self._gold(gold) != self._count(self.split(text)):
            raise ValueError(f"an item of {gold!r:.100} contains the separator {self.separator!r}")

    def correct_text(self, gold: Any) -> str:
        return gold if isinstance(gold, str) else f"{self.separator} ".join(map(str, gold))

    def split(self, text: str) -> list[str]:
        """Split a text into items. Raises: Malformed for an unclosed bracket, or over a thousand items."""
        text = text.strip()
        if text[:1] in BRACKETS and text:
            if len(text) < 2 or text[-1] != BRACKETS[text[0]]:
                raise Malformed("a bracket never closes")
            text = text[1:-1].strip()
        if not text:
            return []
        if text.count(self.separator) >= MAX_ITEMS:
            raise Malformed(f"over {MAX_ITEMS} items")
        return text.split(self.separator)

    def _count(self, items: Iterable[str]) -> Counter[Any]:
        parsed = [self._item(item.strip()) for item in items]
        counts = Counter(parsed)
        if self.repeats is Repeats.REFUSED and len(counts) < len(parsed):
            raise Malformed("an item occurs twice")
        return Counter(set(parsed)) if self.repeats is Repeats.IGNORED else counts

    def _item(self, text: str) -> Any:
        item = normal(text, self.rules)
        if not item:
            raise Malformed("an empty item")
        return rational(item) if self.items == "number" else item

    def _gold(self, gold: Any) -> Counter[Any]:
        """The task's items. Raises: ValueError if its answer is not a list of items."""
        if not isinstance(gold, str | list | tuple | set | frozenset):
            raise ValueError(f"the task's own answer {gold!r:.100} is not a list of items")
        try:
            return self._count(self.split(gold) if isinstance(gold, str) else [str(item) for item in gold])
        except Malformed as problem:
            raise ValueError(f"the task's own answer {gold!r:.100} cannot be read: {problem}") from problem
