"""The marks that a guess gets, and the most informative guess."""

from __future__ import annotations

from collections import Counter
from functools import cache

__all__ = ["marks", "narrowest"]


@cache
def narrowest(candidates: tuple[str, ...]) -> str:
    """The word that leaves the fewest candidates in the worst case."""
    return min(candidates, key=lambda guess: max(Counter(marks(guess, word) for word in candidates).values()))


def marks(guess: str, word: str) -> str:
    """A mark for each letter. A letter that the word has once is marked at most once."""
    spare = Counter(b for a, b in zip(guess, word, strict=True) if a != b)
    signs = ""
    for a, b in zip(guess, word, strict=True):
        signs += "g" if a == b else "y" if spare[a] else "-"
        spare[a] -= a != b and spare[a] > 0
    return signs
