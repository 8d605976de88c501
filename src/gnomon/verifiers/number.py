"""One number, compared exactly as a rational, with explicit rules for tolerance, percent, units and separators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

from gnomon.verifiers.slot import Answered, Malformed
from gnomon.verifiers.units import UNITS, Unit

__all__ = ["Number", "Percent", "Quantity", "Units", "quantity", "rational"]

MAX_LENGTH = 600
"""Longest number with its unit, in characters."""
MAX_DIGITS = 512
"""Largest number of digits of one number, including decimals."""
MAX_EXPONENT = 9999
"""Largest absolute value of the exponent in `1e6`."""

DIGITS = frozenset("0123456789")
MINUS = "-−"
SPACES = " \t\n\xa0\u202f"


class Percent(StrEnum):
    """The meaning of % after a number."""

    REFUSED = "refused"
    """The answer is malformed."""
    SHARE = "share"
    """50 % is one half."""
    POINTS = "points"
    """50 % is fifty."""


class Units(StrEnum):
    """How a unit after a number is treated. If both have one, they are converted; 5 feet never equal 5 metres."""

    REFUSED = "refused"
    """The answer is malformed."""
    OPTIONAL = "optional"
    """If one of the two has no unit, only the numbers are compared."""
    REQUIRED = "required"
    """An answer without a unit is malformed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A number, with its unit if there is one."""

    value: Fraction
    unit: Unit | None = None


def rational(text: str, thousands: str = "") -> Fraction:
    """A whole number, decimal, fraction `a/b` or power of ten `1.5e-3` in ASCII digits, with an optional sign.

    Args: thousands: the separator between groups of three digits before the point; empty for none.
    Raises: Malformed for any other text, over 512 digits, an exponent beyond ±9999, or a division by zero.
    """
    if len(text) > MAX_LENGTH:
        raise Malformed(f"a number of over {MAX_LENGTH} characters")
    sign = -1 if text[:1] in MINUS and text else 1
    body = text[1:] if text[:1] in (*MINUS, "+") and text else text
    top, slash, bottom = body.partition("/")
    if not slash:
        return sign * _decimal(top, thousands)
    numerator, denominator = _whole(top.rstrip(SPACES), thousands), _whole(bottom.lstrip(SPACES), thousands)
    if denominator == 0:
        raise Malformed("a division by zero")
    return sign * Fraction(numerator, denominator)


def _decimal(text: str, thousands: str) -> Fraction:
    mantissa, letter, power = text.partition("e") if "e" in text else text.partition("E")
    whole, point, decimals = mantissa.partition(".")
    if not (whole or decimals):
        raise Malformed("not a number")
    if len(whole) + len(decimals) > MAX_DIGITS:
        raise Malformed(f"a number of over {MAX_DIGITS} digits")
    value = Fraction(_whole(whole, thousands) if whole else 0)
    if point and decimals:
        value += Fraction(_whole(decimals, ""), 10 ** len(decimals))
    return value * Fraction(10) ** _exponent(power) if letter else value


def _exponent(text: str) -> int:
    sign = -1 if text[:1] and text[:1] in MINUS else 1
    digits = text[1:] if text[:1] and text[:1] in (*MINUS, "+") else text
    if len(digits) > len(str(MAX_EXPONENT)):
        raise Malformed(f"an exponent beyond {MAX_EXPONENT}")
    return sign * _whole(digits, "")


def _whole(text: str, thousands: str) -> int:
    if thousands and thousands in text:
        first, *groups = text.split(thousands)
        if not 1 <= len(first) <= 3 or any(len(group) != 3 for group in groups):
            raise Malformed(f"{thousands!r} between groups that are not of three digits")
        text = first + "".join(groups)
    if not text or not DIGITS.issuperset(text):
        raise Malformed("not a number")
    if len(text) > MAX_DIGITS:
        raise Malformed(f"a number of over {MAX_DIGITS} digits")
    return int(text)


def quantity(
    text: str, *, percent: Percent = Percent.SHARE, thousands: str = "", units: Mapping[str, Unit] = UNITS
) -> Quantity:
    """Parse a number and what follows it: a percent sign, a unit of the table, or nothing. `$` may precede it.

    Raises: Malformed, for any other text.
    """
    if len(text) > MAX_LENGTH:
        raise Malformed(f"a number of over {MAX_LENGTH} characters")
    if text[:1] and text[:1] in units and text[:1] not in DIGITS:
        return Quantity(value=rational(text[1:].lstrip(SPACES), thousands), unit=units[text[0]])
    end = len(text)
    while end and text[end - 1] not in DIGITS and text[end - 1] != ".":
        end -= 1
    # The digit of a unit such as m2 is not the number's.
    end = next((i for i in range(end) if text[i:] in units and text[i:]), end)
    behind = text[end:].strip(SPACES)
    value = rational(text[:end].rstrip(SPACES), thousands)
    if not behind:
        return Quantity(value=value)
    if behind == "%" and percent is not Percent.REFUSED:
        return Quantity(value=value / 100 if percent is Percent.SHARE else value)
    unit = units.get(behind) or units.get(behind.lower())
    if unit is None:
        raise Malformed("the text after the number is not a known unit")
    return Quantity(value=value, unit=unit)


@dataclass(frozen=True, kw_only=True)
class Number(Answered):
    """The answer is one number. The reference is an integer, a fraction, a float, or a text that is parsed likewise."""

    absolute: float = 0.0
    """Largest distance from the reference that is correct, in the reference's unit."""
    relative: float = 0.0
    """The same relative to the size of the reference. The wider of the two tolerances applies."""
    units: Units = Units.REFUSED
    percent: Percent = Percent.REFUSED
    thousands: str = ""
    """Separator that is allowed between groups of three digits, such as a comma."""
    table: Mapping[str, Unit] | None = None
    """The known units by name; by default those of `gnomon.verifiers.units`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "units", Units(self.units))
        object.__setattr__(self, "percent", Percent(self.percent))
        for name, value in (("absolute", self.absolute), ("relative", self.relative)):
            if not 0 <= value < float("inf"):
                raise ValueError(f"{name} is {value}; a tolerance is a number from 0")
        if len(self.thousands) > 1 or self.thousands in tuple("0123456789.eE/+-%"):
            raise ValueError(f"thousands is {self.thousands!r}; it must be empty or a character that no number needs")

    def accepts(self, answer: str, gold: Any) -> bool:
        parsed, right = self.read(answer), self._gold(gold)
        if parsed.unit is not None and right.unit is not None:
            if parsed.unit.dimension != right.unit.dimension:
                return False
            return self.near(parsed.value * parsed.unit.factor / right.unit.factor, right.value)
        if self.units is Units.REQUIRED and parsed.unit is None:
            raise Malformed("the unit is missing")
        return self.near(parsed.value, right.value)

    def require_gold(self, gold: Any) -> None:
        self._gold(gold)

    def read(self, text: str) -> Quantity:
        """Parse a quantity by this verifier's rules. Raises: Malformed."""
        table: Mapping[str, Unit] = UNITS if self.table is None else self.table
        units = {} if self.units is Units.REFUSED else table
        return quantity(text, percent=self.percent, thousands=self.thousands, units=units)

    def near(self, value: Fraction, gold: Fraction) -> bool:
        """Whether a value is within the tolerance of the reference. The comparison is exact, so NaN cannot occur."""
        # The tolerance is the written decimal, not its nearest binary float.
        absolute, relative = Fraction(repr(float(self.absolute))), Fraction(repr(float(self.relative)))
        return abs(value - gold) <= max(absolute, relative * abs(gold))

    def _gold(self, gold: Any) -> Quantity:
        """The task's answer. Raises: ValueError if it is not a number."""
        try:
            if isinstance(gold, bool):
                raise Malformed("a boolean")
            if isinstance(gold, int | Fraction):
                parsed = Quantity(value=Fraction(gold))
            else:
                parsed = self.read(repr(gold) if isinstance(gold, float) else str(gold).strip())
        except Malformed as problem:
            raise ValueError(f"the task's own answer {gold!r:.100} cannot be read: {problem}") from problem
        if self.units is Units.REQUIRED and parsed.unit is None:
            raise ValueError(f"the task's own answer {gold!r:.100} has no unit, and units are required")
        return parsed
