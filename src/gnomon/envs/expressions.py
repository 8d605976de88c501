"""Random expressions over given numbers."""

from __future__ import annotations

import random
from fractions import Fraction

__all__ = ["grow"]


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
