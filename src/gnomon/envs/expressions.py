"""Expressions over given numbers: a random one, and one with a given value."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import permutations

__all__ = ["grow", "solve"]


def grow(rng: random.Random, numbers: list[int], signs: str = "+-*/") -> tuple[Fraction, str]:
    """A random expression over the numbers. Every subexpression is a whole number of at least 0.

    Args: signs: the allowed operators; they must include + or *.
    """
    parts = [(Fraction(number), str(number)) for number in numbers]
    while len(parts) > 1:
        (a, x), (b, y) = (parts.pop(rng.randrange(len(parts))) for _ in range(2))
        sign = rng.choice([s for s in signs if not (s == "-" and a < b) and not (s == "/" and (b == 0 or a % b))])
        value = {"+": a + b, "-": a - b, "*": a * b, "/": a / b if sign == "/" else a}[sign]
        parts.append((value, f"({x}{sign}{y})"))
    value, text = parts[0]
    return value, text[1:-1] if text.startswith("(") else text


def solve(numbers: list[int], target: int) -> str | None:
    """An expression that uses every number once and has the target as its value; None if there is none."""
    return _join([(Fraction(number), str(number)) for number in numbers], Fraction(target))


def _join(parts: list[tuple[Fraction, str]], target: Fraction) -> str | None:
    """Join two parts by every operator, and so on until one is left that has the value."""
    if len(parts) == 1:
        value, text = parts[0]
        return (text[1:-1] if text.startswith("(") else text) if value == target else None
    for one, other in permutations(range(len(parts)), 2):
        (a, x), (b, y) = parts[one], parts[other]
        rest = [part for i, part in enumerate(parts) if i not in (one, other)]
        values = {"-": a - b, "/": a / b if b else None}
        if one < other:
            values |= {"+": a + b, "*": a * b}
        for sign, result in values.items():
            if result is not None and (solution := _join([*rest, (result, f"({x}{sign}{y})")], target)):
                return solution
    return None
