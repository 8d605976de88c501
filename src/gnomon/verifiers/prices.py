"""The arithmetic of weights: what a reward can pay for being right, and what without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gnomon.types import Part, Verdict

__all__ = ["RIGHT", "Pay", "Price", "paid", "pay", "undeclared"]

RIGHT = "correct"
"""The part that pays for a right answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What one part of a reward can pay, declared before any reply is judged."""

    name: str
    weight: float
    most: float = 1.0
    """Largest value of the part in one episode; 5 for up to five calls that count one each. The least is 0."""
    gate: str | None = None
    """Name of the part that must be positive for this one to count."""

    @property
    def total(self) -> float:
        return max(0.0, self.weight * self.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pay:
    """The sums of a list of prices."""

    right: float
    """What a right answer pays by itself, whatever else it opens."""
    without: float
    """The most that a reply can earn whose part `correct` is 0."""
    sources: tuple[Price, ...]
    """The parts that make up `without`."""

    @property
    def overpaid(self) -> bool:
        """Whether being right can be left out without loss."""
        return self.without >= self.right

    def __str__(self) -> str:
        parts = " + ".join(f"{p.name} {p.most:g} x {p.weight:g}" for p in self.sources)
        what = f"{self.without:g} ({parts})" if parts else "nothing"
        return f"being right pays {self.right:g}; all else pays at most {what} without it"


def pay(prices: Sequence[Price]) -> Pay | None:
    """What a reward of these parts can pay; None where no part is named `correct`, so that nothing can be said."""
    value = {price.name: price.most for price in prices}
    if RIGHT not in value:
        return None
    free = [p for p in prices if p.name != RIGHT and p.gate != RIGHT and (p.gate is None or value[p.gate] > 0)]
    sources = tuple(price for price in free if price.total > 0)
    right = next(price.total for price in prices if price.name == RIGHT)
    return Pay(right=right, without=sum(price.total for price in sources), sources=sources)


def undeclared(prices: Sequence[Price], verdict: Verdict) -> Iterator[str]:
    """What of a verdict its prices do not allow, each as a sentence."""
    declared = {price.name: price for price in prices}
    for part in verdict.parts:
        price = declared.get(part.name)
        if price is None:
            yield f"the part {part.name!r} is paid and not declared"
        elif (part.weight, part.gate) != (price.weight, price.gate):
            now, then = (f"{p.weight:g}, gate {p.gate}" for p in (part, price))
            yield f"the part {part.name!r} has weight {now}, and {then} was declared"
        elif not 0 <= part.value <= price.most:
            yield f"the part {part.name!r} has the value {part.value:g}, outside of 0 to {price.most:g}"


def paid(parts: Sequence[Part]) -> dict[str, float]:
    """What every part of a verdict adds to its reward; nothing where its gate is shut."""
    value = {part.name: part.value for part in parts}
    return {p.name: p.weight * p.value if p.gate is None or value[p.gate] > 0 else 0.0 for p in parts}
