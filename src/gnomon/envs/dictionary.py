"""English words of 3 to 8 letters (`words.txt`, with its licence beside it)."""

from __future__ import annotations

from collections import Counter
from functools import cache
from importlib.resources import files

__all__ = ["dictionary", "words"]


@cache
def dictionary() -> frozenset[str]:
    lines = files("gnomon.envs").joinpath("words.txt").read_text("ascii").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


@cache
def words(shortest: int, longest: int, anagrams: int) -> tuple[str, ...]:
    makes = Counter("".join(sorted(word)) for word in dictionary())
    fit = (w for w in dictionary() if shortest <= len(w) <= longest and makes["".join(sorted(w))] <= anagrams)
    return tuple(sorted(fit))
