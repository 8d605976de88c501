"""Number literals: decimals, repeating digits, or a power of ten."""

from __future__ import annotations

import re
from fractions import Fraction

from gnomon.verifiers.mathematics.node import Node, number
from gnomon.verifiers.number import rational
from gnomon.verifiers.slot import Malformed

__all__ = ["literal", "scientific"]

DIGITS = re.compile(r"(?P<whole>[0-9]*)(?:\.(?P<decimals>[0-9]*))?(?P<rest>.*)", re.DOTALL)


def scientific(mantissa: Fraction) -> str:
    return "scientific" if 1 <= abs(mantissa) < 10 else "shifted"


def literal(text: str) -> Node:
    """The number that a token is. Raises: Malformed."""
    match = DIGITS.match(text)
    assert match is not None
    whole, decimals, rest = match["whole"], match["decimals"] or "", match["rest"].strip()
    if rest[:1] in ("e", "E") and rest:
        mantissa = rational(text[: match.end("decimals") if match["decimals"] is not None else match.end("whole")])
        return number(rational(text), scientific(mantissa))
    value = rational(f"{whole or 0}.{decimals}") if whole or decimals else None
    if value is None and not rest:
        raise Malformed("a point without digits")
    if not rest:
        return number(value or 0)
    if rest.startswith("\\overline") or rest.startswith("\\bar") or rest.startswith("(") or rest.startswith("\\dot{") \
            or re.match(r"\\dot\s*[0-9{]", rest):  # fmt: skip
        repeated = "".join(re.findall("[0-9]", rest))
        return number(_repeating(whole, decimals, repeated), "repeating")
    cycle = re.search(r"(?P<cycle>[0-9]{1,8}?)(?P=cycle)+$", decimals)
    if cycle is None or (len(cycle["cycle"]) == 1 and len(cycle.group()) < 3):
        raise Malformed("an ellipsis after digits that do not repeat")
    return number(_repeating(whole, decimals, cycle["cycle"]), "repeating")


def _repeating(whole: str, decimals: str, repeated: str) -> Fraction:
    cycle = Fraction(int(repeated), 10 ** len(repeated) - 1)
    return rational(f"{whole or 0}.{decimals}") + cycle * Fraction(1, 10 ** len(decimals))
