"""A mathematical answer as a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

__all__ = ["INFINITY", "Node", "integer", "key", "name", "negative", "number", "rebuild", "walk"]


@dataclass(frozen=True, slots=True)
class Node:
    """One operation, number, name or list.

    | kind | parts | text |
    |---|---|---|
    | number | | how it is written: plain, mixed, repeating, percent, scaled (3 million), scientific, shifted (17·10²) |
    | name | | a variable or constant |
    | sum, product | two or more | |
    | quotient, power | two | |
    | negative | one | |
    | pm | one or two | `+` for ±, `-` for ∓ |
    | call | the arguments | the function |
    | list, set, tuple | the elements | of a tuple, its two brackets |
    | matrix | rows, of the kind row | |
    | union, difference | sets | |
    | relation | the sides | the signs between them, separated by spaces |
    | ratio | two or more | |
    | modulo | value and modulus | |
    | based | | digits and base, `2516_8` |
    | quantity | the number | the words behind it |
    | words | | the words |
    """

    kind: str
    parts: tuple[Node, ...] = ()
    text: str = ""
    value: Fraction = Fraction(0)


def number(value: Fraction | int, style: str = "plain") -> Node:
    return Node("number", text=style, value=Fraction(value))


def name(text: str) -> Node:
    return Node("name", text=text)


INFINITY = name("infinity")


def negative(node: Node) -> Node:
    """The node with the other sign; a positive number stays a number."""
    if node.kind == "number" and node.value >= 0:
        return Node("number", text=node.text, value=-node.value)
    return node.parts[0] if node.kind == "negative" else Node("negative", (node,))


def integer(node: Node) -> bool:
    """Whether the node is an integer written only with digits."""
    return node.kind == "number" and node.text == "plain" and node.value.denominator == 1


def walk(node: Node) -> Iterator[Node]:
    """Yield the node and all its descendants."""
    yield node
    for part in node.parts:
        yield from walk(part)


def rebuild(node: Node, change: Callable[[Node], Node | None]) -> Node:
    """The tree in which every node is replaced by `change(node)` where that is not None."""
    replacement = change(node)
    if replacement is not None:
        return replacement
    return Node(node.kind, tuple(rebuild(part, change) for part in node.parts), node.text, node.value)


def key(node: Node) -> Any:
    """A key that ignores the order of terms, factors and elements of a set."""
    parts = [key(part) for part in node.parts]
    if node.kind in ("sum", "product", "set", "list", "union"):
        parts.sort(key=repr)
    style = "" if node.kind in ("number", "list") and node.text != "shifted" else node.text
    return (node.kind, style, hex(node.value.numerator), hex(node.value.denominator), *parts)
