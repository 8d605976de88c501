"""Polynomials over the rationals in several variables, in normal form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

from gnomon.verifiers.number import rational
from gnomon.verifiers.slot import Answered, Malformed

__all__ = ["Form", "Polynomial", "PolynomialAnswer", "polynomial"]

MAX_LENGTH = 512
"""Longest polynomial, in characters."""
MAX_DEPTH = 32
"""Nested parentheses."""
MAX_DIGITS = 18
"""Largest number of digits of a number in the text."""
MAX_DEGREE = 64
"""Largest degree of a term, and largest exponent in the text."""
MAX_TERMS = 1000
MAX_BITS = 4096
"""Largest size of a coefficient's numerator and denominator, in bits."""
MAX_WORK = 100_000
"""Largest number of products of two terms, over the whole text."""

Term = tuple[tuple[str, int], ...]
"""Variables with their exponents, sorted by name."""
Terms = dict[Term, Fraction]

SIGNS = {"+": "+", "-": "-", "−": "-", "*": "*", "·": "*", "×": "*", "/": "/", "÷": "/", "^": "^", "(": "(", ")": ")"}
DIGITS = frozenset("0123456789.")
LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Polynomial:
    """A sum of terms. No two have the same powers, and no coefficient is zero."""

    terms: Mapping[Term, Fraction]

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(name for term in self.terms for name, _ in term)

    @property
    def constant(self) -> Fraction | None:
        """Its value if it has no variable, else None."""
        return None if self.variables else self.terms.get((), Fraction(0))


def polynomial(text: str) -> Polynomial:
    """Parse sums, differences, products, integer powers and quotients by a number into the normal form.

    A variable is one letter. Adjacent factors are a product, as in `2x(y + 1)`. A power is `^` or `**`. A power binds
    more tightly than a sign: `-x^2` is −(x²).
    Raises: Malformed, with the reason; also if the result exceeds the limits of this module.
    """
    if len(text) > MAX_LENGTH:
        raise Malformed(f"a polynomial of over {MAX_LENGTH} characters")
    parser = _Parser(_tokens(text))
    terms = parser.sum(0)
    if parser.peek():
        raise Malformed(f"unexpected {parser.peek()!r}")
    return Polynomial(terms=terms)


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    start, text = 0, text.replace("**", "^")
    while start < len(text):
        char = text[start]
        if char in DIGITS:
            end = start
            while end < len(text) and text[end] in DIGITS:
                end += 1
            tokens.append(text[start:end])
            start = end
            continue
        if char in SIGNS:
            tokens.append(SIGNS[char])
        elif char in LETTERS:
            tokens.append(char)
        elif char not in " \t\n":
            raise Malformed(f"{char!r} is not part of a polynomial")
        start += 1
    return tokens


class _Parser:
    """Recursive descent: a sum of products of signed powers."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.position, self.work = tokens, 0, 0

    def peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.position += 1
        return token

    def sum(self, depth: int) -> Terms:
        sign = -1
        while self.peek() in ("+", "-") and self.peek():
            sign = -sign if self.take() == "-" else sign
        total = self.scale(self.product(depth), Fraction(-sign))
        while self.peek() in ("+", "-") and self.peek():
            factor = Fraction(1 if self.take() == "+" else -1)
            total = self.add(total, self.scale(self.product(depth), factor))
        return total

    def product(self, depth: int) -> Terms:
        value = self.power(depth)
        while (token := self.peek()) and token not in ("+", "-", ")", "^"):
            if token in ("*", "/"):
                self.take()
                other = self.signed_factor(depth)
            else:
                other = self.power(depth)
            value = self.divide(value, other) if token == "/" else self.multiply(value, other)
        return value

    def signed_factor(self, depth: int) -> Terms:
        """A factor after × or ÷, which may have one sign."""
        if self.peek() == "-":
            self.take()
            return self.scale(self.power(depth), Fraction(-1))
        return self.power(depth)

    def power(self, depth: int) -> Terms:
        base = self.atom(depth)
        if self.peek() != "^":
            return base
        self.take()
        bracket = self.peek() == "("
        exponent = self.take() if not bracket else [self.take(), self.take(), self.take()][1]
        if bracket and self.tokens[self.position - 1 : self.position] != [")"]:
            raise Malformed("the exponent is not an integer")
        if not exponent.isascii() or not exponent.isdigit() or len(exponent) > 2 or int(exponent) > MAX_DEGREE:
            raise Malformed(f"the exponent is not an integer from 0 to {MAX_DEGREE}")
        if self.peek() == "^":
            raise Malformed("a power of a power needs parentheses")
        result: Terms = {(): Fraction(1)}
        for _ in range(int(exponent)):
            result = self.multiply(result, base)
        return result

    def atom(self, depth: int) -> Terms:
        token = self.take()
        if token == "(":
            if depth >= MAX_DEPTH:
                raise Malformed(f"parentheses nested over {MAX_DEPTH} deep")
            value = self.sum(depth + 1)
            if self.take() != ")":
                raise Malformed("a parenthesis never closes")
            return value
        if token in LETTERS:
            return {((token, 1),): Fraction(1)}
        if not token or token[0] not in DIGITS:
            raise Malformed(f"a factor is missing before {token!r}" if token else "the polynomial ends too early")
        if len(token) > MAX_DIGITS:
            raise Malformed(f"a number of over {MAX_DIGITS} digits")
        number = rational(token)
        return {(): number} if number else {}

    def add(self, left: Terms, right: Terms) -> Terms:
        self.spend(len(right))
        total = dict(left)
        for term, factor in right.items():
            self.put(total, term, factor)
        return total

    def scale(self, terms: Terms, factor: Fraction) -> Terms:
        self.spend(len(terms))
        return {term: value * factor for term, value in terms.items()}

    def multiply(self, left: Terms, right: Terms) -> Terms:
        self.spend(len(left) * len(right))
        total: Terms = {}
        for one, first in left.items():
            for two, second in right.items():
                exponents = dict(one)
                for name, exponent in two:
                    exponents[name] = exponents.get(name, 0) + exponent
                if sum(exponents.values()) > MAX_DEGREE:
                    raise Malformed(f"a degree of over {MAX_DEGREE}")
                self.put(total, tuple(sorted(exponents.items())), first * second)
        return total

    def divide(self, left: Terms, right: Terms) -> Terms:
        if not right:
            raise Malformed("a division by zero")
        if set(right) != {()}:
            raise Malformed("the divisor is not a number")
        return self.scale(left, 1 / right[()])

    def put(self, total: Terms, term: Term, factor: Fraction) -> None:
        value = total.get(term, Fraction(0)) + factor
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
            raise Malformed("a coefficient is too large")
        if value:
            total[term] = value
        else:
            total.pop(term, None)
        if len(total) > MAX_TERMS:
            raise Malformed(f"over {MAX_TERMS} terms")

    def spend(self, work: int) -> None:
        self.work += work
        if self.work > MAX_WORK:
            raise Malformed("the polynomial is too expensive to expand")


class Form(StrEnum):
    """The form that an answer must have."""

    ANY = "any"
    """Any text with the same normal form. A copy of the question can be accepted."""
    EXPANDED = "expanded"
    """A sum of terms, without parentheses and without like terms."""


@dataclass(frozen=True, kw_only=True)
class PolynomialAnswer(Answered):
    """The answer is a polynomial with rational coefficients. The reference is one too, as text or a number."""

    form: Form = Form.ANY

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "form", Form(self.form))

    def accepts(self, answer: str, gold: Any) -> bool:
        try:
            right = polynomial(str(gold))
        except Malformed as problem:
            raise ValueError(f"the task's own answer {gold!r:.100} cannot be read: {problem}") from problem
        parsed = polynomial(answer)
        if self.form is Form.EXPANDED:
            if "(" in answer:
                raise Malformed("the answer is not expanded: it has parentheses")
            summands = 1 + sum(sign in "+-−" for sign in answer.strip()[1:])
            if summands != max(1, len(parsed.terms)):
                raise Malformed("like terms or zero terms are not combined")
        return parsed.terms == right.terms
