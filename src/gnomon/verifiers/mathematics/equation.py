"""Equations and inequalities that are more than `name = value`, and chains of equal values."""

from __future__ import annotations

from fractions import Fraction

from gnomon.verifiers.mathematics.node import Node, negative
from gnomon.verifiers.mathematics.value import agree, constant, divide, equal, near, variables, within
from gnomon.verifiers.slot import Malformed, Rejected, Several

__all__ = ["chain_end", "decimals", "difference", "proportional", "same_inequality"]


def chain_end(node: Node) -> tuple[Node, ...]:
    r"""The last exact value of a chain such as `6 \cdot 7 = 42` or `\sqrt2 \approx 1.41`, and its rounded value.

    Empty if the relation is not a chain of values. Raises: Several or Malformed if its sides are not equal.
    """
    signs = node.text.split()
    if not set(signs) <= {"=", "\\approx"} or (len(signs) == 1 and any(variables(part) for part in node.parts)):
        return ()
    sides = [part.parts[0] if part.kind == "quantity" else part for part in node.parts]  # `9 * 2 = \$18`
    for sign, left, right in zip(signs, sides, sides[1:], strict=False):
        if (variables(left) or variables(right)) and not (sign == "=" and equal(left, right)):
            raise Malformed("more than one equation")
        if sign == "=" and not equal(left, right):
            raise Several("sides of an equation that are not equal")
        if sign == "\\approx" and not _rounds(right, left):
            raise Several("two values that are not equal")
    if "\\approx" not in signs:
        return (node.parts[-1],)
    return node.parts[signs.index("\\approx")], node.parts[-1]


def _rounds(decimal: Node, exact: Node) -> bool:
    exact_value, rounded = constant(exact), constant(decimal)
    if exact_value is None or not isinstance(rounded, Fraction):
        return False
    return within(exact_value, rounded, Fraction(6, 10 ** (decimals(rounded) + 1)))


def decimals(value: Fraction) -> int:
    """Number of decimal places."""
    places = 0
    while value.denominator != 1 and places < 600:
        value, places = value * 10, places + 1
    return places


def difference(node: Node) -> Node:
    return Node("sum", (node.parts[0], negative(node.parts[1])))


def proportional(answer: Node, right: Node, positive: bool = False) -> bool:
    """Whether one formula is a constant multiple of the other."""
    ratios = list[object]()

    def same(one: object, other: object) -> bool:
        if one == 0 or other == 0:
            return one == other
        ratios.append(divide(one, other))
        return near(ratios[0], ratios[-1])

    agrees = agree(answer, right, same) and bool(ratios)
    return agrees and not (positive and ratios[0].real <= 0)  # type: ignore[attr-defined]


def same_inequality(answer: Node, right: Node) -> bool:
    """Whether two inequalities in several variables are positive multiples of each other."""
    signs = [node.text for node in (answer, right)]
    if any(sign not in ("<", ">", "\\le", "\\ge") for sign in signs) or len(variables(right)) < 2:
        raise Rejected("the answer leaves work undone: an inequality that is not solved")
    turned = [
        difference(node) if node.text in (">", "\\ge") else negative(difference(node)) for node in (answer, right)
    ]
    strict = [sign in ("<", ">") for sign in signs]
    return strict[0] == strict[1] and proportional(turned[0], turned[1], positive=True)
