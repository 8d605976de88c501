"""Whole numbers in English words."""

from __future__ import annotations

__all__ = ["words"]

# fmt: off
SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)
# fmt: on
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


def words(number: int) -> str:
    """The words of a number from 0 to 999,999, with hyphens and without "and"."""
    if number < 100:
        ten, one = divmod(number, 10)
        return SMALL[number] if number < 20 else TENS[ten - 2] + (f"-{SMALL[one]}" if one else "")
    size, name = (1000, "thousand") if number >= 1000 else (100, "hundred")
    many, rest = divmod(number, size)
    return f"{words(many)} {name}" + (f" {words(rest)}" if rest else "")
