"""Evaluate arithmetic expressions over exact rationals, without `eval` and with bounded cost."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from gnomon.verifiers.slot import Malformed

__all__ = ["Expression", "calculate", "evaluate", "integer"]

MAX_LENGTH = 512
"""Characters of an expression."""
MAX_DEPTH = 32
"""Nested parentheses."""
MAX_DIGITS = 18
"""Digits of one number."""

SIGNS = {"+": "+", "-": "-", "−": "-", "*": "*", "×": "*", "/": "/", "÷": "/", "(": "(", ")": ")"}
DIGITS = frozenset("0123456789")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """The value of an expression and the numbers in it."""

    value: Fraction
    numbers: tuple[int, ...]
    """The integers in the expression, in order."""


def integer(text: str) -> int:
    """An integer in plain ASCII digits, with an optional leading minus (- or −).

    Raises: Malformed for any other text (`+4`, `1e3`, `4.0`, full-width digits, more than 18 digits).
    """
    sign = -1 if text.startswith(("-", "−")) else 1
    digits = text if sign > 0 else text[1:]
    if not digits or not DIGITS.issuperset(digits):
        raise Malformed("not an integer")
    if len(digits) > MAX_DIGITS:
        raise Malformed(f"a number of over {MAX_DIGITS} digits")
    return sign * int(digits)


def evaluate(text: str) -> Expression:
    """The value of an expression of whole numbers, + − × ÷ and parentheses.

    Signs in front of numbers, powers and implied products are not allowed. × ÷ − may be written * / -.

    Raises: Malformed, with the reason; also for division by zero.
    """
    if len(text) > MAX_LENGTH:
        raise Malformed(f"an expression of over {MAX_LENGTH} characters")
    parser = _Parser(_tokens(text))
    value = parser.sum(0)
    if parser.peek():
        raise Malformed(f"unexpected {parser.peek()!r}")
    return Expression(value=value, numbers=tuple(parser.numbers))


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    start = 0
    while start < len(text):
        char = text[start]
        if char in DIGITS:
            end = start
            while end < len(text) and text[end] in DIGITS:
                end += 1
            number = text[start:end]
            if len(number) > MAX_DIGITS:
                raise Malformed(f"a number of over {MAX_DIGITS} digits")
            if len(number) > 1 and number[0] == "0":
                raise Malformed("a number with a leading zero")
            tokens.append(number)
            start = end
            continue
        if char in SIGNS:
            tokens.append(SIGNS[char])
        elif char not in " \t\n":
            raise Malformed(f"{char!r} is not part of an expression")
        start += 1
    return tokens


class _Parser:
    """Recursive descent: a sum of products of atoms."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.position, self.numbers = tokens, 0, list[int]()

    def peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.position += 1
        return token

    def sum(self, depth: int) -> Fraction:
        value = self.product(depth)
        while self.peek() in ("+", "-"):
            sign, other = self.take(), self.product(depth)
            value = value + other if sign == "+" else value - other
        return value

    def product(self, depth: int) -> Fraction:
        value = self.atom(depth)
        while self.peek() in ("*", "/"):
            sign, other = self.take(), self.atom(depth)
            if sign == "/" and other == 0:
                raise Malformed("division by zero")
            value = value * other if sign == "*" else value / other
        return value

    def atom(self, depth: int) -> Fraction:
        token = self.take()
        if token == "(":
            if depth >= MAX_DEPTH:
                raise Malformed(f"parentheses nested over {MAX_DEPTH} deep")
            value = self.sum(depth + 1)
            if self.take() != ")":
                raise Malformed("a parenthesis never closes")
            return value
        if not token or token[0] not in DIGITS:
            raise Malformed(f"a number is missing before {token!r}" if token else "the expression ends too early")
        self.numbers.append(int(token))
        return Fraction(int(token))


def calculate(expression: str) -> str:
    """The value of an expression of whole numbers, + − × ÷ and parentheses, as text: an integer or a fraction.

    Returns an error message if the expression has no value. Never raises; the cost is bounded.
    """
    try:
        return str(evaluate(expression).value)
    except Malformed as problem:
        return f"error: {problem}"
