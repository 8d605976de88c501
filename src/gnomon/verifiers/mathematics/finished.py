"""Whether an answer is fully evaluated. `6*7` does not answer the question what 6*7 is."""

from __future__ import annotations

from itertools import combinations

from gnomon.verifiers.mathematics.node import Node, integer, number, walk
from gnomon.verifiers.mathematics.value import Undefined, divide, points, rational_value, value, variables
from gnomon.verifiers.slot import Rejected

__all__ = ["unfinished_part"]

FORMULAS = frozenset(("sum", "product", "quotient", "power", "negative", "call"))
MAX_TERMS = 24
"""Largest number of terms of a sum that are compared with each other."""


def unfinished_part(node: Node) -> str:
    r"""What is not yet evaluated in an answer; empty if nothing is.

    That is a rational number that is not written as one (`6*7`, `2^{10}`, `\sqrt{4}`, `84/2`),
    a product with two numbers (`2\pi\cdot 3`), and a sum with two terms of which one is a rational multiple of the
    other (`2x + 3x`, `\sqrt2 + \sqrt8`). Deeper parts count too.
    """
    for part in walk(node):
        if part.kind in FORMULAS and not _written(part):
            if not variables(part) and _rational(part):
                return "numbers that are not put together"
            if part.kind == "product" and sum(_written(one) for one in part.parts) > 1:
                return "factors that are not multiplied"
            if part.kind == "sum" and _alike(part):
                return "terms that are not put together"
        if part.kind == "number" and part.text == "shifted":
            return "a power of ten that is not multiplied"
    return ""


def _written(node: Node) -> bool:
    """Whether a node is a rational number in final form: digits, a fraction that is not an integer, or `7^{-1}`."""
    if node.kind == "negative":
        return node.parts[0].kind == "quotient" and _written(node.parts[0])
    if node.kind == "quotient":
        top, bottom = node.parts
        return integer(top) and integer(bottom) and bottom.value != 0 and (top.value / bottom.value).denominator != 1
    if node.kind == "power":
        base, exponent = node.parts
        return integer(base) and abs(base.value) > 1 and exponent == number(-1)
    return node.kind == "number"


def _rational(node: Node) -> bool:
    try:
        return rational_value(value(node, {}, real=False)) is not None
    except Undefined:
        return False


def _alike(node: Node) -> bool:
    """Whether one term is a rational multiple of another."""
    if len(node.parts) > MAX_TERMS:
        raise Rejected("a sum of too many terms")
    names = sorted(variables(node))
    values = list[list[object]]()
    for point in points(names)[:2]:
        row = list[object]()
        for term in node.parts:
            try:
                row.append(value(term, point, real=False))
            except Undefined:
                row.append(None)
        values.append(row)
    for one, other in combinations(range(len(node.parts)), 2):
        ratios = {_ratio(row[one], row[other]) for row in values}
        if len(ratios) == 1 and None not in ratios:
            return True
    return False


def _ratio(left: object, right: object) -> object:
    if left is None or right is None:
        return None
    return 0 if left == 0 or right == 0 else rational_value(divide(left, right))
