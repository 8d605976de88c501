"""The known word that a misspelled one stands for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["edits", "nearest"]


def nearest(word: str, candidates: Iterable[str]) -> str:
    """The known word with the fewest edits, else one of similar letters; the empty text where no word is near.

    Ties go to the word that comes first. One edit is allowed, one in four letters of a longer word, and at most three.
    """
    words, limit = list(candidates), max(1, min(3, len(word) // 4))
    count = {each: edits(word.lower(), each.lower()) for each in words if abs(len(each) - len(word)) <= limit}
    if close := [each for each, edited in count.items() if edited <= limit and edited < len(word)]:
        return min(close, key=count.__getitem__)
    return next(iter(difflib.get_close_matches(word, words, 1, 0.75)), "")


def edits(one: str, other: str) -> int:
    """Letters to insert, delete or replace, and neighbours to swap, until two words are equal."""
    before, row = [0] * (len(other) + 1), list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        following = [i]
        for j, target in enumerate(other, 1):
            cost = min(row[j] + 1, following[-1] + 1, row[j - 1] + (letter != target))
            if i > 1 and j > 1 and (letter, one[i - 2]) == (other[j - 2], target):
                cost = min(cost, before[j - 2] + 1)
            following.append(cost)
        before, row = row, following
    return row[-1]
