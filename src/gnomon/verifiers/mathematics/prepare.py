"""Rewrite an answer before comparison: ±, angles in functions, conditions, logarithms without a base."""

from __future__ import annotations

from gnomon.verifiers.mathematics.node import Node, name, negative, number, rebuild, walk

__all__ = ["KINDS", "bare_log", "decadic", "percentage", "prepare"]

KINDS = ("integers", "naturals", "reals", "rationals", "complexes")
LISTS = ("list", "set")


def prepare(node: Node) -> Node:
    """The tree with angles inside functions in radians, set differences marked as such, and ± expanded."""
    node = rebuild(node, lambda part: _in_radians(part) if part.kind == "call" else None)
    node = rebuild(node, _exponential)
    return _expand(rebuild(node, _without_points))


def percentage(node: Node) -> bool:
    return node.kind == "number" and node.text == "percent"


def bare_log(node: Node) -> bool:
    return node.text == "log" and len(node.parts) == 1


def decadic(node: Node) -> Node | None:
    r"""`\log` without a base as the logarithm to base ten."""
    if node.kind == "call" and bare_log(node):
        return Node("call", tuple(rebuild(part, decadic) for part in node.parts), "lg")
    return None


def _exponential(node: Node) -> Node | None:
    r"""`\operatorname{cis} x` as a power of e."""
    if node.kind != "call" or node.text != "cis":
        return None
    return Node("power", (name("e"), Node("product", (name("i"), node.parts[0]))))


def _without_points(node: Node) -> Node | None:
    r"""`\mathbb{R} - \{1\}` as a set difference, which is written like a difference of numbers."""
    if node.kind != "sum" or node.parts[0] != name("reals") or [part.kind for part in node.parts[1:]] != ["negative"]:
        return None
    return Node("difference", (node.parts[0], node.parts[1].parts[0]))


def _in_radians(node: Node) -> Node:
    """A function with its angles converted from degrees to radians."""

    def radians(part: Node) -> Node | None:
        if part.kind == "quantity" and part.text in ("°", "degrees", "degree"):
            return Node("quotient", (Node("product", (part.parts[0], name("\\pi"))), number(180)))
        return None

    return rebuild(node, radians)


def _expand(node: Node) -> Node:
    """The tree with ± expanded to a list of two values."""
    if node.kind in LISTS:
        parts = list[Node]()
        for part in node.parts:
            if node.kind == "list" and _condition(part) and len(node.parts) > 1:
                continue
            expansion = _expand(part)
            parts += expansion.parts if expansion.kind == "list" and part.kind not in LISTS else [expansion]
        return parts[0] if node.kind == "list" and len(parts) == 1 else Node(node.kind, tuple(parts), node.text)
    if not any(part.kind == "pm" for part in walk(node)):
        return node
    return Node("list", tuple(rebuild(node, lambda part, s=sign: _choose(part, s)) for sign in (1, -1)))  # type: ignore[misc]


def _condition(node: Node) -> bool:
    r"""Whether a node only declares the kind of a variable: `k \in \mathbb{Z}`."""
    return node.kind == "relation" and node.text == "\\in" and node.parts[1].text in KINDS


def _choose(node: Node, sign: int) -> Node | None:
    if node.kind != "pm":
        return None
    minus = (node.text == "+") != (sign > 0)
    parts = tuple(rebuild(part, lambda inner: _choose(inner, sign)) for part in node.parts)
    last = negative(parts[-1]) if minus else parts[-1]
    return last if len(parts) == 1 else Node("sum", (parts[0], last))
