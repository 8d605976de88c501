"""Whether two answers are the same: their kinds first, then the value of every part."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from gnomon.verifiers.mathematics.equation import closed, decimals, difference, proportional, same_inequality
from gnomon.verifiers.mathematics.finished import undone
from gnomon.verifiers.mathematics.naming import same_name, stripped
from gnomon.verifiers.mathematics.node import Node, integer, key, name, negative, number, rebuilt, walk
from gnomon.verifiers.mathematics.prepare import bare_log, decadic, percentage, prepared
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

__all__ = ["Comparison"]

MANY = ("list", "set")
PLACED = ("tuple", "matrix")


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rules by which an answer is compared with a gold."""

    units: Units
    percent: Percent
    decimals: int

    def same(self, said: Node, right: Node) -> bool:
        """Whether an answer is right. Raises: Rejected, Several or Malformed, for what is no single finished answer."""
        said, right = self.prepared(said), self.prepared(right)
        if key(said) == key(right):
            return True
        found = self.one(said, right)
        if found or not any(part.kind == "call" and bare_log(part) for tree in (said, right) for part in walk(tree)):
            return found
        return self.one(rebuilt(said, decadic), rebuilt(right, decadic))

    def prepared(self, node: Node) -> Node:
        """The tree with its percentages under the rule of this comparison."""
        if self.percent is Percent.REFUSED and any(percentage(part) for part in walk(node)):
            raise Malformed("a percent sign")
        if self.percent is Percent.POINTS:
            node = rebuilt(node, lambda part: number(part.value * 100) if percentage(part) else None)
        return prepared(node)

    def one(self, said: Node, right: Node) -> bool:
        """The same for prepared trees, of one kind after the other."""
        if key(said) == key(right):
            return True
        if ranged(said) or ranged(right):
            return self.regions(said, right)
        if said.kind in MANY or right.kind in MANY:
            return self.many(said, right)
        (called, mine), (asked, theirs) = stripped(said), stripped(right)
        if said.kind == right.kind == "relation" and not (called and asked):
            return self.relations(said, right)
        if not same_name(called, asked):
            return False
        said, right = mine, theirs
        if "relation" in (said.kind, right.kind):
            return self.relations(said, right)
        if called or asked:
            return self.one(said, right)
        if said.kind in PLACED or right.kind in PLACED:
            return self.placed(said, right)
        if "ratio" in (said.kind, right.kind):
            return self.ratios(said, right)
        if "modulo" in (said.kind, right.kind):
            return self.residues(said, right)
        if "based" in (said.kind, right.kind):
            return _based(said, right)
        if "words" in (said.kind, right.kind):
            return False
        if "quantity" in (said.kind, right.kind):
            return self.quantities(said, right)
        return self.formulas(said, right)

    # Several values.

    def many(self, said: Node, right: Node) -> bool:
        mine = said.parts if said.kind in MANY else (said,)
        theirs = right.parts if right.kind in MANY else (right,)
        if said.kind == "list" and right.kind not in MANY and not _assigns(said):
            if right.kind in PLACED and not any(part.kind in PLACED for part in said.parts):
                return False
            raise Several("more than one answer where one is asked")
        if _assigns(said) and _assigns(right):
            return self.in_order(_by_name(said), _by_name(right))
        if _assigns(said) or _assigns(right):
            return self.assigned(said, right)
        return len(mine) == len(theirs) and self.matched(mine, theirs)

    def assigned(self, said: Node, right: Node) -> bool:
        """Values of several names beside a row of values: in the order of the names, or as the gold writes them."""
        names, row = (said, right) if _assigns(said) else (right, said)
        called, row = stripped(row)
        if row.kind not in ("tuple", "list") or called != ",".join(sorted(called.split(","))):
            return False
        if names is said:
            return self.in_order(_by_name(names), row.parts)
        written = tuple(stripped(part)[1] for part in names.parts)
        return self.in_order(row.parts, _by_name(names)) or self.in_order(row.parts, written)

    def matched(self, said: tuple[Node, ...], right: tuple[Node, ...]) -> bool:
        """Whether two lists have the same elements, in any order, each as often."""
        left = list(right)
        for one in said:
            place = next((place for place, other in enumerate(left) if self.one(one, other)), None)
            if place is None:
                return False
            del left[place]
        return True

    def placed(self, said: Node, right: Node) -> bool:
        """Pairs, points, vectors and matrices."""
        if said.kind not in PLACED or right.kind not in PLACED:
            return False
        if said.kind == right.kind == "tuple":
            if {said.text, right.text} - {"()", "<>"} and said.text != right.text:
                return False
            return self.in_order(said.parts, right.parts)
        if said.kind == right.kind:
            shapes = [[len(row.parts) for row in node.parts] for node in (said, right)]
            return shapes[0] == shapes[1] and self.in_order(_entries(said), _entries(right))
        return self.in_order(_vector(said), _vector(right))

    def in_order(self, said: tuple[Node, ...], right: tuple[Node, ...]) -> bool:
        """Whether two rows have the same elements in the same order."""
        return len(said) == len(right) and all(self.one(one, other) for one, other in zip(said, right, strict=True))

    def regions(self, said: Node, right: Node) -> bool:
        if right.kind in MANY and not ranged(right) and right.kind == "list":
            return said.kind == "list" and len(said.parts) == len(right.parts) and self.matched(said.parts, right.parts)
        mine, theirs = region(stripped(said)[1]), region(stripped(right)[1])
        if theirs is None:
            return said.kind == right.kind == "relation" and same_inequality(said, right)
        absolute = said.kind == "relation" and said.text != right.text and _absolute(said)
        if absolute or (mine is None and said.kind == "relation"):
            raise Rejected("the answer leaves work undone: an inequality that is not solved")
        return mine is not None and same_region(mine, theirs, self.one)

    # Single values.

    def relations(self, said: Node, right: Node) -> bool:
        """Equations that do not only give a value its name."""
        mine = closed(said) if said.kind == "relation" else ()
        theirs = closed(right) if right.kind == "relation" else ()
        if mine or theirs:
            wanted = theirs[0] if theirs else right
            return any(self.one(value, wanted) for value in mine or (said,))
        if said.kind != right.kind or said.text != right.text or said.text not in ("=", "\\equiv"):
            raise Rejected("the answer leaves work undone: an equation that is not solved")
        if len(variables(right)) < 2:
            raise Rejected("the answer leaves work undone: an equation that is not solved")
        if why := undone(said):
            raise Rejected(f"the answer leaves work undone: {why}")
        return proportional(difference(said), difference(right))

    def ratios(self, said: Node, right: Node) -> bool:
        if said.kind != "ratio" and len(right.parts) == 2:
            return self.formulas(said, Node("quotient", right.parts))
        if right.kind != "ratio":
            if said.kind == "ratio" and len(said.parts) == 2 and right.kind == "quotient":
                return self.formulas(Node("quotient", said.parts), right)
            return False
        if len(said.parts) != len(right.parts) or (_clock(right) and (_clock(said) or not _lowest(right))):
            return False
        mine, theirs = said.parts, right.parts
        return all(
            equal(Node("product", (mine[0], theirs[place])), Node("product", (mine[place], theirs[0])))
            for place in range(1, len(mine))
        )

    def residues(self, said: Node, right: Node) -> bool:
        if said.kind != right.kind:
            mine, theirs = (node.parts[0] if node.kind == "modulo" else node for node in (said, right))
            return self.one(mine, theirs)
        (mine, base), (theirs, other) = said.parts, right.parts
        if not self.one(base, other):
            return False
        one, two, modulus = (constant(node) for node in (mine, theirs, base))
        if not (isinstance(one, Fraction) and isinstance(two, Fraction) and isinstance(modulus, Fraction) and modulus):
            return self.one(mine, theirs)
        return ((one - two) / modulus).denominator == 1 and self.finished(mine, theirs)

    def quantities(self, said: Node, right: Node) -> bool:
        """Values with what stands behind them."""
        (mine, unit), (theirs, other) = _quantity(said), _quantity(right)
        if unit and other:
            one, two = measure(unit), measure(other)
            if one is None or two is None:
                return one is two and _singular(unit) == _singular(other) and self.one(mine, theirs)
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

    def formulas(self, said: Node, right: Node) -> bool:
        if equal(_constant_of_integration(said, right), right):
            return self.finished(said, right)
        return self.rounded(said, right) or self.rounded(right, said)

    def finished(self, said: Node, right: Node) -> bool:
        """True. Raises: Rejected, for an answer that is not worked out, where the gold is."""
        why = undone(said) or ("letters that cancel" if variables(said) - variables(right) else "")
        shifted = any(part.kind == "number" and part.text == "scientific" for part in walk(right))
        if why and not undone(right) and not (shifted and said.kind == "number"):
            raise Rejected(f"the answer leaves work undone: {why}")
        return True

    def rounded(self, decimal: Node, exact: Node) -> bool:
        """Whether one is a decimal of enough places that rounds or cuts off the other, which is no rational number."""
        if decimal.kind == "negative":
            return self.rounded(decimal.parts[0], negative(exact))
        if decimal.kind != "number" or decimal.text != "plain" or variables(exact) or exact.kind == "number":
            return False
        shown = decimals(decimal.value)
        found = constant(exact)
        if shown < self.decimals or found is None or isinstance(found, Fraction) or found.imag != 0:
            return False
        if rational_value(found) is not None:
            return False
        return within(found, decimal.value, Fraction(1, 10**shown))


def _absolute(node: Node) -> bool:
    return any(part.kind == "call" and part.text == "abs" for part in node.parts)


def _assigns(node: Node) -> bool:
    """Whether a list gives values to different names."""
    names = [stripped(part)[0] for part in node.parts] if node.kind == "list" else []
    return bool(names) and all(names) and len({called.partition("_")[0] for called in names}) > 1


def _by_name(node: Node) -> tuple[Node, ...]:
    """Values in the order of their names."""
    return tuple(value for _, value in sorted((stripped(part) for part in node.parts), key=lambda pair: pair[0]))


def _constant_of_integration(said: Node, right: Node) -> Node:
    """The answer with the letter C for its own constant, where the gold adds one that the answer does not have."""
    free = [name(letter) for letter in "cKk"]
    if right.kind != "sum" or said.kind != "sum" or name("C") not in right.parts or "C" in variables(said):
        return said
    other = next((letter for letter in free if letter in said.parts and letter.text not in variables(right)), None)
    return said if other is None else rebuilt(said, lambda part: name("C") if part == other else None)


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


def _based(said: Node, right: Node) -> bool:
    """Digits in a base: the base may be left out of the answer where the gold has it, and is ten otherwise."""
    if said.kind == "based" and right.kind == "based":
        return said.text == right.text
    digits, _, base = (said if said.kind == "based" else right).text.partition("_")
    other = right if said.kind == "based" else said
    return integer(other) and str(other.value) == digits and (base == "10" or right.kind == "based")
