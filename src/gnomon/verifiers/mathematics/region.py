"""Sets of real numbers in one form: intervals, their unions and solved inequalities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cmp_to_key
from itertools import pairwise
from typing import Any

from gnomon.verifiers.mathematics.naming import name_of, same_name
from gnomon.verifiers.mathematics.node import INFINITY, Node, negative
from gnomon.verifiers.mathematics.value import constant, near

__all__ = ["Region", "ranged", "region", "same_region"]

ORDER = {"<": (False, True), "\\le": (True, True), ">": (False, False), "\\ge": (True, False)}
"""For each relation: whether it includes the bound, and whether the greater side is on the right."""
LOWEST = negative(INFINITY)


@dataclass(frozen=True, slots=True)
class Span:
    """The numbers between two bounds."""

    low: Node
    high: Node
    closed: tuple[bool, bool]


@dataclass(frozen=True, slots=True)
class Region:
    name: str
    """Name of the variable; empty if there is none."""
    spans: tuple[Span, ...]


def ranged(node: Node) -> bool:
    """Whether a tree is a set of numbers by its notation alone. A pair is ambiguous and is not."""
    if node.kind == "relation":
        return any(sign in (*ORDER, "\\ne") for sign in node.text.split())
    if node.kind == "list":
        return _excluding(node) or (bool(node.text) and all(ranged(part) for part in node.parts))
    return node.kind in ("union", "difference") or (node.kind == "name" and node.text == "reals")


def region(node: Node) -> Region | None:
    """The region that a tree denotes; None if it denotes none, or is an unsolved inequality."""
    if node.kind == "name" and node.text == "reals":
        return Region("", (Span(LOWEST, INFINITY, (False, False)),))
    if node.kind == "relation":
        return _inequality(node)
    if node.kind == "tuple" and len(node.parts) == 2 and node.text in ("()", "[]", "(]", "[)"):
        return Region("", (Span(*node.parts, (node.text[0] == "[", node.text[1] == "]")),))
    if node.kind == "set" and node.parts:
        return Region("", tuple(Span(part, part, (True, True)) for part in node.parts))
    if node.kind == "list" and _excluding(node):
        points = tuple(part.parts[1] if part.kind == "relation" else part for part in node.parts)
        return Region(name_of(node.parts[0].parts[0]), tuple(_without(points)))
    if node.kind in ("union", "list"):
        parts = [region(part) for part in node.parts]
        regions = [part for part in parts if part is not None]
        names = {part.name for part in regions if part.name}
        if len(regions) < len(parts) or len(names) > 1:
            return None
        spans = [span for part in regions for span in part.spans]
        if node.kind == "list" and node.text == "and":
            spans = _intersection(spans)
        return Region(next(iter(names), ""), tuple(spans))
    if node.kind == "difference" and node.parts[0] == Node("name", text="reals") and node.parts[1].kind == "set":
        return Region("", tuple(_without(node.parts[1].parts)))
    return None


def _inequality(node: Node) -> Region | None:
    signs, sides = node.text.split(), node.parts
    if signs == ["\\in"] and (name := name_of(sides[0])):
        inner = region(sides[1])
        return None if inner is None else Region(name, inner.spans)
    if signs == ["\\ne"] and (name := name_of(sides[0])):
        return Region(name, tuple(_without((sides[1],))))
    if not all(sign in ORDER for sign in signs) or len({ORDER[sign][1] for sign in signs}) > 1:
        return None
    if not ORDER[signs[0]][1]:
        sides, signs = sides[::-1], signs[::-1]
    closed = [ORDER[sign][0] for sign in signs]
    if len(sides) == 3 and (name := name_of(sides[1])):
        return Region(name, (Span(sides[0], sides[2], (closed[0], closed[1])),))
    if len(sides) != 2:
        return None
    left, right = sides
    if name := name_of(left):
        return Region(name, (Span(LOWEST, right, (False, closed[0])),))
    if name := name_of(right):
        return Region(name, (Span(left, INFINITY, (closed[0], False)),))
    if left.kind == "call" and left.text == "abs" and (name := name_of(left.parts[0])):
        return Region(name, (Span(negative(right), right, (closed[0], closed[0])),))
    return None


def _excluding(node: Node) -> bool:
    r"""Whether a list excludes values: `x \ne 1, x \ne 2` or `x \ne 1, 2`."""
    first, *others = node.parts
    return (
        first.kind == "relation"
        and first.text == "\\ne"
        and all(part.text == "\\ne" if part.kind == "relation" else not ranged(part) for part in others)
        and node.text != "or"
    )


def _without(points: tuple[Node, ...]) -> list[Span]:
    """All real numbers except these points."""
    ends = [LOWEST, *sorted(points, key=cmp_to_key(_order)), INFINITY]
    return [Span(low, high, (False, False)) for low, high in pairwise(ends)]


def _intersection(spans: list[Span]) -> list[Span]:
    """The intersection of intervals."""
    low, high = max(spans, key=_by_low), min(spans, key=_by_high)
    return [Span(low.low, high.high, (low.closed[0], high.closed[1]))]


def _order(left: Node, right: Node) -> int:
    """The order of two bounds. Bounds without a value keep their places."""
    for node, sign in ((left, -1), (right, 1)):
        if node == LOWEST:
            return 0 if left == right else sign
        if node == INFINITY:
            return 0 if left == right else -sign
    one, other = constant(left), constant(right)
    if one is None or other is None or near(one, other):
        return 0
    return 1 if (one - other if type(one) is type(other) else float(one) - float(other)).real > 0 else -1


def _by_low(span: Span) -> Any:
    return cmp_to_key(_order)(span.low)


def _by_high(span: Span) -> Any:
    return cmp_to_key(_order)(span.high)


def same_region(answer: Region, right: Region, same: Callable[[Node, Node], bool]) -> bool:
    """Whether two regions contain the same numbers. Args: same: whether two bounds are equal."""
    if not same_name(answer.name, right.name):
        return False
    mine, theirs = _merge(answer.spans), _merge(right.spans)
    return len(mine) == len(theirs) and all(
        one.closed == other.closed and _same_end(one.low, other.low, same) and _same_end(one.high, other.high, same)
        for one, other in zip(mine, theirs, strict=True)
    )


def _same_end(answer: Node, right: Node, same: Callable[[Node, Node], bool]) -> bool:
    ends = (INFINITY, LOWEST)
    return answer == right if answer in ends or right in ends else same(answer, right)


def _merge(spans: tuple[Span, ...]) -> list[Span]:
    """The intervals sorted, with touching ones merged."""
    merged = list[Span]()
    for span in sorted(spans, key=_by_low):
        last = merged[-1] if merged else None
        gap = _order(last.high, span.low) if last is not None else -1
        if last is not None and (gap > 0 or (gap == 0 and (last.closed[1] or span.closed[0]))):
            further = _order(span.high, last.high) > 0
            high, closed = (span.high, span.closed[1]) if further else (last.high, last.closed[1])
            merged[-1] = Span(last.low, high, (last.closed[0], closed))
        else:
            merged.append(span)
    return merged
