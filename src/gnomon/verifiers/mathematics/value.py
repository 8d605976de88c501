"""The value of a tree: exact where rational arithmetic suffices, else to eighty digits.

Two formulas with variables are equal if they agree at fixed points, the same for every verdict. Rational
functions that differ almost never agree at six points with large denominators (Schwartz 1980, Zippel 1979), and other
formulas are compared to fifty digits there. The limits of this module bound the cost.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from typing import Any

from gnomon.verifiers.mathematics.node import Node, walk
from gnomon.verifiers.slot import Rejected

__all__ = [
    "Undefined",
    "agree",
    "constant",
    "divide",
    "equal",
    "near",
    "rational_value",
    "value",
    "variables",
    "within",
]

DIGITS = 80
"""Decimal digits that are computed."""
CLOSE = 50
"""Decimal digits in which two values must agree."""
POINTS = 24
"""Points that are tried."""
ENOUGH = 6
"""Points at which two formulas must both have a value."""
MAX_BITS = 40_000
"""Size of an exact numerator or denominator."""
MAX_LOG = 200_000
"""Natural logarithm of the largest value that is computed."""
MAX_FACTORIAL = 2000
CONSTANTS = frozenset(("e", "i", "\\pi", "infinity"))

Number = Any
"""A Fraction, or a real or complex number of mpmath."""


class Undefined(Exception):
    """The formula has no value at this point, or no real one."""


@cache
def _mp() -> Any:
    """A private mpmath context, so that its precision is not shared."""
    from mpmath import MPContext  # type: ignore[import-untyped, unused-ignore]

    context = MPContext()
    context.dps = DIGITS
    return context


def variables(node: Node) -> frozenset[str]:
    return frozenset(part.text for part in walk(node) if part.kind == "name" and part.text not in CONSTANTS)


def constant(node: Node) -> Number | None:
    """The value of a tree without variables; None if it is undefined."""
    try:
        return value(node, {}, real=not _imaginary(node))
    except Undefined:
        return None


def near(left: Number, right: Number) -> bool:
    """Whether two values are equal: exactly, or to fifty digits."""
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return left == right
    mp = _mp()
    left, right = _inexact(left), _inexact(right)
    gap = abs(left - right)
    return bool(gap <= mp.mpf(10) ** -CLOSE * max(abs(left), abs(right)) or gap < mp.mpf(10) ** (10 - DIGITS))


def within(left: Number, right: Number, width: Fraction) -> bool:
    """Whether two values differ by at most `width`."""
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return abs(left - right) <= width
    return bool(abs(_inexact(left) - _inexact(right)) <= _inexact(width))


def rational_value(number: Number) -> Fraction | None:
    """The value as a fraction with a denominator up to a million, if it is one."""
    if isinstance(number, Fraction):
        return number
    mp = _mp()
    if abs(number.imag) > mp.mpf(10) ** (10 - DIGITS) or abs(number) > 10**18:
        return None
    fraction = Fraction(str(mp.nstr(number.real, DIGITS - 10))).limit_denominator(10**6)
    return fraction if near(fraction, number) else None


def equal(left: Node, right: Node) -> bool:
    """Whether two formulas agree wherever both are real, or else wherever both are complex."""
    return agree(left, right, near)


def agree(left: Node, right: Node, same: Callable[[Number, Number], bool]) -> bool:
    """Whether two formulas are the `same` at enough points. Without variables, one point is enough."""
    names = sorted(variables(left) | variables(right))
    imaginary = _imaginary(left) or _imaginary(right)
    for real in (False,) if imaginary else (True, False):
        met = 0
        for point in points(names):
            try:
                values = value(left, point, real=real), value(right, point, real=real)
            except Undefined:
                continue
            if not same(*values):
                return False
            met += 1
            if met == ENOUGH:
                break
        if met:
            return met >= min(ENOUGH, 3) or not names
    return False


def points(names: list[str]) -> list[Mapping[str, Fraction]]:
    """Values of the variables: positive and negative, small and large, the same on every machine."""
    if not names:
        return [{}]
    generator = random.Random(" ".join(names))
    scales = [(0, 1), (1, 4), (-3, 0), (0, 3), (-1, 1), (4, 9)]
    result = list[Mapping[str, Fraction]]()
    for i in range(POINTS):
        low, high = scales[i % len(scales)]
        result.append({name: low + Fraction(generator.randrange(1, 1009), 1009) * (high - low) for name in names})
    return result


def _imaginary(node: Node) -> bool:
    return any(part.kind == "name" and part.text == "i" for part in walk(node))


def _inexact(number: Number) -> Number:
    if isinstance(number, Fraction):
        mp = _mp()
        return mp.mpf(number.numerator) / number.denominator
    return number


def _check_size(number: Number) -> Number:
    """The number. Raises: Rejected if it exceeds the limits."""
    if isinstance(number, Fraction):
        if max(number.numerator.bit_length(), number.denominator.bit_length()) > MAX_BITS:
            raise Rejected("a number too large to be written out")
        return number
    mp = _mp()
    if not mp.isfinite(number):
        raise Undefined
    if number != 0 and abs(mp.mag(number)) > 2 * MAX_LOG:
        raise Rejected("a number too large to be written out")
    return number


def value(node: Node, point: Mapping[str, Fraction], *, real: bool) -> Number:
    """The value of a tree at a point.

    Args: real: whether every intermediate value must be real.
    Raises: Undefined if there is none; Rejected if it is too large.
    """
    kind, parts = node.kind, node.parts
    if kind == "number":
        return _check_size(node.value)
    if kind == "name":
        return _named_value(node.text, point)
    if kind == "based":
        digits, _, base = node.text.partition("_")
        return Fraction(int(digits, int(base)))
    if kind not in ("sum", "product", "quotient", "power", "negative", "call"):
        raise Undefined
    values = [value(part, point, real=real) for part in parts]
    if kind == "sum":
        total: Number = Fraction(0)
        for one in values:
            total = _check_size(_together(total, one, lambda a, b: a + b))
        return total
    if kind == "product":
        total = Fraction(1)
        for one in values:
            total = _check_size(_together(total, one, lambda a, b: a * b))
        return total
    if kind == "negative":
        return -values[0]
    if kind == "quotient":
        if values[1] == 0:
            raise Undefined
        return _check_size(_together(values[0], values[1], lambda a, b: a / b))
    return _real(_check_size(_power(*values) if kind == "power" else _call(node.text, values)), real)


def _together(left: Number, right: Number, act: Callable[[Number, Number], Number]) -> Number:
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return act(left, right)
    return act(_inexact(left), _inexact(right))


def divide(left: Number, right: Number) -> Number:
    """The quotient of two values. The divisor must not be zero."""
    return _together(left, right, lambda a, b: a / b)


def _real(number: Number, real: bool) -> Number:
    """The number. Raises: Undefined if it must be real and is not."""
    if real and not isinstance(number, Fraction) and number.imag != 0:
        raise Undefined
    return number if isinstance(number, Fraction) or number.imag != 0 else number.real


def _named_value(text: str, point: Mapping[str, Fraction]) -> Number:
    mp = _mp()
    if text == "e":
        return +mp.e
    if text == "\\pi":
        return +mp.pi
    if text == "i":
        return mp.mpc(0, 1)
    if text not in point:
        raise Undefined
    return point[text]


def _power(base: Number, exponent: Number) -> Number:
    mp = _mp()
    if base == 0:
        if isinstance(exponent, Fraction) and exponent > 0:
            return Fraction(0)
        raise Undefined
    whole = isinstance(exponent, Fraction) and exponent.denominator == 1
    if isinstance(base, Fraction) and whole:
        size = max(base.numerator.bit_length(), base.denominator.bit_length())
        if abs(exponent) > MAX_BITS or size * abs(exponent) > 2 * MAX_BITS:
            if base not in (1, -1):
                raise Rejected("a number too large to be written out")
            return base if exponent % 2 else Fraction(1)
        return base ** int(exponent)
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and base > 0 and exponent.denominator <= 64:
        root = _root(base, exponent.denominator)
        if isinstance(root, Fraction):
            return _power(root, Fraction(exponent.numerator))
    grown = abs(mp.log(abs(_inexact(base)))) * abs(_inexact(exponent))
    if grown > MAX_LOG or abs(_inexact(exponent)) > 10**12:
        raise Rejected("a number too large to be written out")
    return mp.power(_inexact(base), _inexact(exponent))


def _root(number: Fraction, degree: int) -> Number:
    """The positive root of a positive number, as a fraction if it is rational."""
    top, bottom = _whole_root(number.numerator, degree), _whole_root(number.denominator, degree)
    if top is not None and bottom is not None:
        return Fraction(top, bottom)
    return _mp().root(_inexact(number), degree)


def _whole_root(number: int, degree: int) -> int | None:
    low, high = 0, 1 << -(-number.bit_length() // degree)
    while low < high:
        middle = (low + high + 1) // 2
        if middle**degree <= number:
            low = middle
        else:
            high = middle - 1
    return low if low**degree == number else None


def _call(text: str, arguments: list[Number]) -> Number:
    mp = _mp()
    first = arguments[0]
    if text == "abs":
        return abs(first)
    if text == "factorial":
        if abs(first) > MAX_FACTORIAL:
            raise Rejected("a number too large to be written out")
        if isinstance(first, Fraction) and first.denominator == 1:
            if first < 0:
                raise Undefined
            return Fraction(math.factorial(int(first)))
        return mp.gamma(_inexact(first) + 1)
    if text == "binom":
        if any(abs(one) > MAX_FACTORIAL for one in arguments):
            raise Rejected("a number too large to be written out")
        if all(isinstance(one, Fraction) and one.denominator == 1 and one >= 0 for one in arguments):
            return Fraction(math.comb(int(first), int(arguments[1])))
        return mp.binomial(_inexact(first), _inexact(arguments[1]))
    if text in ("floor", "ceil"):
        if isinstance(first, Fraction):
            return Fraction(math.floor(first) if text == "floor" else math.ceil(first))
        return Fraction(int(mp.floor(first.real) if text == "floor" else mp.ceil(first.real)))
    if text == "root":
        return _root_of(first, arguments[1])
    if text in ("ln", "log", "lg"):
        if first == 0:
            raise Undefined
        if len(arguments) > 1:
            base = mp.log(_inexact(arguments[1])) if arguments[1] not in (0, 1) else 0
            if base == 0:
                raise Undefined
            return mp.log(_inexact(first)) / base
        return mp.log(_inexact(first)) / (mp.log(10) if text == "lg" else 1)
    return _analytic(text, _inexact(first))


def _root_of(number: Number, degree: Number) -> Number:
    if number == 0:
        return Fraction(0)
    if isinstance(degree, Fraction) and degree.denominator == 1 and 1 <= degree <= 64 and isinstance(number, Fraction):
        if number > 0:
            return _root(number, int(degree))
        if degree % 2:
            return -_root(-number, int(degree))
    if degree == 0:
        raise Undefined
    if degree % 2 == 1 and not isinstance(number, Fraction) and number.imag == 0 and number.real < 0:
        return -_power(-number, 1 / degree)
    return _power(number, 1 / degree if isinstance(degree, Fraction) else 1 / _inexact(degree))


@cache
def _functions() -> dict[str, Callable[[Number], Number]]:
    mp = _mp()
    return {
        "sin": mp.sin, "cos": mp.cos, "tan": mp.tan, "cot": mp.cot, "sec": mp.sec, "csc": mp.csc,
        "arcsin": mp.asin, "arccos": mp.acos, "arctan": mp.atan, "arccot": mp.acot, "arcsec": mp.asec,
        "arccsc": mp.acsc, "sinh": mp.sinh, "cosh": mp.cosh, "tanh": mp.tanh, "arcsinh": mp.asinh,
        "arccosh": mp.acosh, "arctanh": mp.atanh, "exp": mp.exp,
    }  # fmt: skip


def _analytic(text: str, number: Number) -> Number:
    if abs(number) > MAX_LOG:
        raise Rejected("a number too large to be written out")
    try:
        return _functions()[text](number)
    except (ValueError, ZeroDivisionError, OverflowError) as problem:
        raise Undefined from problem
