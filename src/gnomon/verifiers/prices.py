"""Check reward weights: the most that a reward can pay with and without a correct answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gnomon.types import Part, Verdict

__all__ = ["RIGHT", "Pay", "Price", "pay", "payments", "undeclared_parts"]

RIGHT = "correct"
"""Name of the part that pays for a correct answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The largest amount that one part of a reward can pay, declared before any reply is judged."""

    name: str
    weight: float
    most: float = 1.0
    """Largest value of the part in one episode, such as 5 for up to five calls that count 1 each. The minimum is 0."""
    gate: str | None = None
    """Name of the part that must be positive for this one to count."""

    @property
    def total(self) -> float:
        return max(0.0, self.weight * self.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pay:
    """The sums of a list of prices."""

    right: float
    """The amount that a correct answer pays by itself, without parts that it gates."""
    without: float
    """The largest reward of a reply whose part `correct` is 0."""
    sources: tuple[Price, ...]
    """The parts that make up `without`."""

    @property
    def overpaid(self) -> bool:
        """Whether a reply can earn as much without a correct answer."""
        return self.without >= self.right

    def __str__(self) -> str:
        parts = " + ".join(f"{p.name} {p.most:g} x {p.weight:g}" for p in self.sources)
        what = f"{self.without:g} ({parts})" if parts else "nothing"
        return f"a correct answer pays {self.right:g}; the other parts pay at most {what} without it"


def pay(prices: Sequence[Price]) -> Pay | None:
    """The sums for a reward with these parts; None if no part is named `correct`."""
    value = {price.name: price.most for price in prices}
    if RIGHT not in value:
        return None
    free = [p for p in prices if p.name != RIGHT and p.gate != RIGHT and (p.gate is None or value[p.gate] > 0)]
    sources = tuple(price for price in free if price.total > 0)
    right = next(price.total for price in prices if price.name == RIGHT)
    return Pay(right=right, without=sum(price.total for price in sources), sources=sources)


def undeclared_parts(prices: Sequence[Price], verdict: Verdict) -> Iterator[str]:
    """Yield a sentence for every part of a verdict that violates its declared prices."""
    by_name = {price.name: price for price in prices}
    for part in verdict.parts:
        price = by_name.get(part.name)
        if price is None:
            yield f"the part {part.name!r} is paid but not declared"
        elif (part.weight, part.gate) != (price.weight, price.gate):
            now, then = (f"{p.weight:g}, gate {p.gate}" for p in (part, price))
            yield f"the part {part.name!r} has weight {now}, and {then} was declared"
        elif not 0 <= part.value <= price.most:
            yield f"the part {part.name!r} has the value {part.value:g}, outside 0 to {price.most:g}"


def payments(parts: Sequence[Part]) -> dict[str, float]:
    """The amount that every part of a verdict adds to its reward. A part whose gate is 0 adds nothing."""
    value = {part.name: part.value for part in parts}
    return {p.name: p.weight * p.value if p.gate is None or value[p.gate] > 0 else 0.0 for p in parts}
