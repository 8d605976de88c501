"""Compare two answers: first their kinds, then the value of every part."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from gnomon.verifiers.mathematics.equation import chain_end, decimals, difference, proportional, same_inequality
from gnomon.verifiers.mathematics.finished import unfinished_part
from gnomon.verifiers.mathematics.naming import asked_total, members, same_name, strip_name
from gnomon.verifiers.mathematics.node import Node, integer, key, name, negative, number, rebuild, walk
from gnomon.verifiers.mathematics.prepare import bare_log, decadic, percentage, prepare
from gnomon.verifiers.mathematics.region import ranged, region, same_region
from gnomon.verifiers.mathematics.value import (
    constant,
    equal,
    rational_value,
    variables,
    within,
)
from gnomon.verifiers.number import Percent, Units
from gnomon.verifiers.slot import Malformed, Rejected, Several
from gnomon.verifiers.units import measure

__all__ = ["Comparison", "Form"]

GOLD_PLACES = 6
"""Decimal places from which a decimal gold can be a rounded irrational number."""


DEGREES, RADIANS = ((("angle", 1),), (("radian", 1),))
"""The dimensions of angles, as `measure` returns them."""


class Form(StrEnum):
    """How an answer with the correct value must be written."""

    ANY = "any"
    """Any expression with this value."""
    REDUCED = "reduced"
    """Fully computed, if the gold is."""
    EXACT = "exact"
    """As the gold, apart from typography."""


MANY = ("list", "set")
PLACED = ("tuple", "matrix")


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rules for comparing an answer with the reference."""

    units: Units
    percent: Percent
    decimals: int
    form: Form = Form.REDUCED

    def same(self, answer: Node, right: Node) -> bool:
        """Whether an answer is correct. Raises: Rejected, Several or Malformed if it is not one evaluated answer."""
        if self.form is Form.EXACT:
            return answer == right
        answer, right = self.prepare(answer), self.prepare(right)
        if key(answer) == key(right):
            return True
        same = self.one(answer, right)
        if same or not any(part.kind == "call" and bare_log(part) for tree in (answer, right) for part in walk(tree)):
            return same
        return self.one(rebuild(answer, decadic), rebuild(right, decadic))

    def prepare(self, node: Node) -> Node:
        """The tree with percentages converted by the rule of this comparison."""
        if self.percent is Percent.REFUSED and any(percentage(part) for part in walk(node)):
            raise Malformed("a percent sign")
        if self.percent is Percent.POINTS:
            node = rebuild(node, lambda part: number(part.value * 100) if percentage(part) else None)
        return prepare(node)

    def one(self, answer: Node, right: Node) -> bool:
        """`same` for prepared trees; tries one kind after the other."""
        if key(answer) == key(right):
            return True
        if ranged(answer) or ranged(right):
            return self.regions(answer, right)
        if answer.kind in MANY or right.kind in MANY:
            return self.many(members(answer), members(right))
        (mine_name, mine), (name, theirs) = strip_name(answer), strip_name(right)
        if answer.kind == right.kind == "relation" and not (mine_name and name):
            return self.relations(answer, right)
        if not same_name(mine_name, name):
            return False
        answer, right = mine, theirs
        if "relation" in (answer.kind, right.kind):
            return self.relations(answer, right)
        if mine_name or name:
            return self.one(answer, right)
        if answer.kind in PLACED or right.kind in PLACED:
            return self.placed(answer, right)
        if "ratio" in (answer.kind, right.kind):
            return self.ratios(answer, right)
        if "modulo" in (answer.kind, right.kind):
            return self.residues(answer, right)
        if "based" in (answer.kind, right.kind):
            return _based(answer, right)
        if "words" in (answer.kind, right.kind):
            return False
        if "quantity" in (answer.kind, right.kind):
            return self.quantities(answer, right)
        return self.formulas(answer, right)

    # Several values.

    def many(self, answer: Node, right: Node) -> bool:
        mine = answer.parts if answer.kind in MANY else (answer,)
        theirs = right.parts if right.kind in MANY else (right,)
        if answer.kind == "list" and right.kind not in MANY and not _assigns(answer):
            if right.kind in PLACED and not any(part.kind in PLACED for part in answer.parts):
                return False
            raise Several("more than one answer where one is asked")
        if len(mine) == len(theirs) and not any("_" in strip_name(part)[0] for part in theirs):
            mine = tuple(_without_index(mine))
        if _assigns(answer) and _assigns(right):
            return self.in_order(_by_name(answer), _by_name(right))
        if _assigns(answer) or _assigns(right):
            return self.assigned(answer, right)
        return len(mine) == len(theirs) and self.matched(mine, theirs)

    def assigned(self, answer: Node, right: Node) -> bool:
        """Compare named values with a plain list: by the order of the names, or in the order of the reference."""
        names, row = (answer, right) if _assigns(answer) else (right, answer)
        called, row = strip_name(row)
        if row.kind not in ("tuple", "list") or called != ",".join(sorted(called.split(","))):
            return False
        if any(strip_name(part)[0] for part in row.parts):
            return False
        if names is answer:
            return self.in_order(_by_name(names), row.parts)
        values = tuple(strip_name(part)[1] for part in names.parts)
        return self.in_order(row.parts, _by_name(names)) or self.in_order(row.parts, values)

    def matched(self, answer: tuple[Node, ...], right: tuple[Node, ...]) -> bool:
        """Whether two lists have the same elements with the same counts, in any order."""
        unmatched = list(right)
        for one in answer:
            i = next((i for i, other in enumerate(unmatched) if self.one(one, other)), None)
            if i is None:
                return False
            del unmatched[i]
        return True

    def placed(self, answer: Node, right: Node) -> bool:
        """Pairs, points, vectors and matrices."""
        if answer.kind not in PLACED or right.kind not in PLACED:
            return False
        if answer.kind == right.kind == "tuple":
            if {answer.text, right.text} - {"()", "<>"} and answer.text != right.text:
                return False
            return self.in_order(answer.parts, right.parts)
        if answer.kind == right.kind:
            shapes = [[len(row.parts) for row in node.parts] for node in (answer, right)]
            return shapes[0] == shapes[1] and self.in_order(_entries(answer), _entries(right))
        return self.in_order(_vector(answer), _vector(right))

    def in_order(self, answer: tuple[Node, ...], right: tuple[Node, ...]) -> bool:
        """Whether two lists have the same elements in the same order."""
        return len(answer) == len(right) and all(self.one(one, other) for one, other in zip(answer, right, strict=True))

    def regions(self, answer: Node, right: Node) -> bool:
        if right.kind in MANY and not ranged(right) and right.kind == "list":
            return (
                answer.kind == "list"
                and len(answer.parts) == len(right.parts)
                and self.matched(answer.parts, right.parts)
            )
        mine, theirs = region(strip_name(answer)[1]), region(strip_name(right)[1])
        if theirs is None:
            return answer.kind == right.kind == "relation" and same_inequality(answer, right)
        absolute = answer.kind == "relation" and answer.text != right.text and _absolute(answer)
        if absolute or (mine is None and answer.kind == "relation"):
            raise Rejected("the answer leaves work undone: an inequality that is not solved")
        return mine is not None and same_region(mine, theirs, self.one)

    # Single values.

    def relations(self, answer: Node, right: Node) -> bool:
        """Compare equations that are more than `name = value`."""
        if right.kind != "relation" and (total := asked_total(answer)) is not None:
            return self.one(total, right)
        mine = chain_end(answer) if answer.kind == "relation" else ()
        theirs = chain_end(right) if right.kind == "relation" else ()
        if mine or theirs:
            reference = theirs[0] if theirs else right
            return any(self.one(value, reference) for value in mine or (answer,))
        if answer.kind != right.kind or answer.text != right.text or answer.text not in ("=", "\\equiv"):
            raise Rejected("the answer leaves work undone: an equation that is not solved")
        if len(variables(right)) < 2:
            raise Rejected("the answer leaves work undone: an equation that is not solved")
        if self.form is Form.REDUCED and (why := unfinished_part(answer)):
            raise Rejected(f"the answer leaves work undone: {why}")
        return proportional(difference(answer), difference(right))

    def ratios(self, answer: Node, right: Node) -> bool:
        if answer.kind != "ratio" and len(right.parts) == 2:
            return self.formulas(answer, Node("quotient", right.parts))
        if right.kind != "ratio":
            if answer.kind == "ratio" and len(answer.parts) == 2 and right.kind == "quotient":
                return self.formulas(Node("quotient", answer.parts), right)
            return False
        if len(answer.parts) != len(right.parts) or (_clock(right) and (_clock(answer) or not _lowest(right))):
            return False
        mine, theirs = answer.parts, right.parts
        return all(
            equal(Node("product", (mine[0], theirs[i])), Node("product", (mine[i], theirs[0])))
            for i in range(1, len(mine))
        )

    def residues(self, answer: Node, right: Node) -> bool:
        if right.kind != "modulo":
            return False
        if answer.kind != "modulo":
            return self.one(answer, right.parts[0])
        (mine, base), (theirs, other) = answer.parts, right.parts
        if not self.one(base, other):
            return False
        one, two, modulus = (constant(node) for node in (mine, theirs, base))
        if not (isinstance(one, Fraction) and isinstance(two, Fraction) and isinstance(modulus, Fraction) and modulus):
            return self.one(mine, theirs)
        return ((one - two) / modulus).denominator == 1 and self.finished(mine, theirs)

    def quantities(self, answer: Node, right: Node) -> bool:
        """Compare values with their units."""
        (mine, unit), (theirs, other) = _quantity(answer), _quantity(right)
        if unit and other:
            one, two = measure(unit), measure(other)
            if one is None or two is None:
                return one is two and _singular(unit) == _singular(other) and self.one(mine, theirs)
            if {size[0] for size in (one, two)} == {DEGREES, RADIANS}:
                return equal(_in_degrees(mine, one[0]), _in_degrees(theirs, two[0])) and self.finished(mine, theirs)
            if one[0] != two[0]:
                return False
            if one[1] != two[1]:
                ratio = number(one[1] / two[1])
                return equal(Node("product", (mine, ratio)), theirs) and self.finished(mine, theirs)
        elif self.units is not Units.OPTIONAL:
            if not unit:
                raise Malformed("the unit is missing")
            return False
        return self.one(mine, theirs)

    def formulas(self, answer: Node, right: Node) -> bool:
        answer = _constant_of_integration(answer, right)
        if equal(answer, right):
            return self.finished(answer, right)
        if self.decimals and self.rounded(answer, right, self.decimals):
            return True
        return self.rounded(right, answer, GOLD_PLACES)

    def finished(self, answer: Node, right: Node) -> bool:
        """True. Raises: Rejected if the reference is evaluated and the answer is not, and it must be."""
        if self.form is Form.ANY:
            return True
        why = unfinished_part(answer) or ("letters that cancel" if variables(answer) - variables(right) else "")
        shifted = any(part.kind == "number" and part.text == "scientific" for part in walk(right))
        if why and not unfinished_part(right) and not (shifted and answer.kind == "number"):
            raise Rejected(f"the answer leaves work undone: {why}")
        return True

    def rounded(self, decimal: Node, exact: Node, places: int) -> bool:
        """Whether `decimal` has enough places and is the irrational `exact`, rounded or truncated."""
        if decimal.kind == "negative":
            return self.rounded(decimal.parts[0], negative(exact), places)
        if decimal.kind != "number" or decimal.text != "plain" or variables(exact) or exact.kind == "number":
            return False
        digits = decimals(decimal.value)
        exact_value = constant(exact)
        if digits < places or exact_value is None or isinstance(exact_value, Fraction) or exact_value.imag != 0:
            return False
        if rational_value(exact_value) is not None:
            return False
        return within(exact_value, decimal.value, Fraction(1, 10**digits))


def _absolute(node: Node) -> bool:
    return any(part.kind == "call" and part.text == "abs" for part in node.parts)


def _assigns(node: Node) -> bool:
    """Whether a list assigns values to different names."""
    names = [strip_name(part)[0] for part in node.parts] if node.kind == "list" else []
    return bool(names) and all(names) and len({called.partition("_")[0] for called in names}) > 1


def _without_index(parts: tuple[Node, ...]) -> Iterator[Node]:
    """The solutions `x_1 = 2, x_2 = 3` as `x = 2, x = 3`; other parts as they are."""
    names = [strip_name(part)[0].partition("_") for part in parts]
    numbered = len({base for base, _, _ in names}) == 1 and len({at for _, _, at in names if at}) == len(parts) > 1
    for part, (base, _, _) in zip(parts, names, strict=True):
        yield Node("relation", (name(base), strip_name(part)[1]), "=") if numbered else part


def _by_name(node: Node) -> tuple[Node, ...]:
    """Values in the order of their names."""
    return tuple(value for _, value in sorted((strip_name(part) for part in node.parts), key=lambda pair: pair[0]))


def _constant_of_integration(answer: Node, right: Node) -> Node:
    """The answer with its constant of integration renamed to the one of the reference, if that has another."""
    free = [name(letter) for letter in "cKk"]
    if right.kind != "sum" or answer.kind != "sum" or name("C") not in right.parts or "C" in variables(answer):
        return answer
    other = next((letter for letter in free if letter in answer.parts and letter.text not in variables(right)), None)
    return answer if other is None else rebuild(answer, lambda part: name("C") if part == other else None)


def _entries(node: Node) -> tuple[Node, ...]:
    return tuple(entry for row in node.parts for entry in row.parts)


def _vector(node: Node) -> tuple[Node, ...]:
    """The entries of a tuple, a column or a row; the rows of any other matrix, as tuples."""
    if node.kind == "tuple":
        return node.parts
    if len(node.parts) == 1:
        return node.parts[0].parts
    if all(len(row.parts) == 1 for row in node.parts):
        return _entries(node)
    return tuple(Node("tuple", row.parts, "[]") for row in node.parts)


def _quantity(node: Node) -> tuple[Node, str]:
    return (node.parts[0], node.text) if node.kind == "quantity" else (node, "")


def _in_degrees(angle: Node, dimension: tuple[tuple[str, int], ...]) -> Node:
    if dimension == DEGREES:
        return angle
    return Node("quotient", (Node("product", (angle, number(180))), name("\\pi")))


def _singular(text: str) -> str:
    return " ".join(word.removesuffix("s") for word in text.lower().removesuffix(" old").split())


def _clock(node: Node) -> bool:
    """Whether a ratio can be a time of day."""
    hours, minutes = node.parts[0], node.parts[-1]
    return (
        len(node.parts) == 2 and integer(hours) and integer(minutes) and hours.value < 25 and 10 <= minutes.value < 60
    )


def _lowest(node: Node) -> bool:
    """Whether a ratio of two whole numbers cannot be reduced."""
    return math.gcd(*(int(part.value) for part in node.parts)) == 1


def _based(answer: Node, right: Node) -> bool:
    """Compare digits in a base. A number without a base is in base ten."""
    if answer.kind == "based" and right.kind == "based":
        return answer.text == right.text
    digits, _, base = (answer if answer.kind == "based" else right).text.partition("_")
    other = right if answer.kind == "based" else answer
    return base == "10" and integer(other) and str(other.value) == digits
