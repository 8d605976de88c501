"""Parse tokens into an answer: lists, words, relations, and units after a value."""

from __future__ import annotations

from gnomon.verifiers.mathematics.arithmetic import CURRENCIES, MAX_ELEMENTS, Arithmetic
from gnomon.verifiers.mathematics.node import Node, name, negative, number
from gnomon.verifiers.mathematics.notation import Token
from gnomon.verifiers.mathematics.vocabulary import PHRASES, SCALES
from gnomon.verifiers.mathematics.words import noun, numeral
from gnomon.verifiers.slot import Malformed, Rejected
from gnomon.verifiers.units import measure

__all__ = ["parse"]

RELATIONS = frozenset(("=", "<", ">", "\\le", "\\ge", "\\ne", "\\in", "\\approx", "\\equiv"))
MAX_DEPTH = 128
"""Operations inside one another, as in `x!!!`. Brackets have a lower limit."""
SEPARATORS = frozenset((",", ";", "\\lor", "\\land"))


def parse(tokens: list[Token]) -> Node:
    """The tree of an answer. Raises: Malformed, Rejected (the answer is not evaluated) or Several."""
    parser = _Answers(tokens)
    node = parser.many()
    if parser.peek() != "":
        raise Malformed(f"unexpected {parser.peek()!r}")
    if deeper(node, MAX_DEPTH):
        raise Malformed(f"operations nested over {MAX_DEPTH} deep")
    return node


def deeper(node: Node, depth: int) -> bool:
    """Whether a tree has more levels than this. It does not recurse, unlike all that reads the tree later."""
    level = [node]
    while level and depth >= 0:
        level, depth = [part for node in level for part in node.parts], depth - 1
    return bool(level)


class _Answers(Arithmetic):
    def many(self) -> Node:
        """A single answer, or a list without brackets."""
        parts, between = [self.item()], set[str]()
        while self.peek() in SEPARATORS:
            while self.peek() in SEPARATORS:  # `a, b, and c`
                between.add(self.take())
            parts.append(self.item())
        if len(parts) > MAX_ELEMENTS:
            raise Malformed(f"over {MAX_ELEMENTS} elements")
        joined = "and" if between == {"\\land"} else "or" if "\\lor" in between else ""
        return parts[0] if len(parts) == 1 else Node("list", tuple(parts), joined)

    def item(self) -> Node:
        """A statement: words, or a relation with its suffix."""
        while self.kind() == "word" and self.peek() in ("either", "both", "approximately", "about", "roughly"):
            self.take()
        self.drop("\\approx")
        if self.peek() == "\\neg" or (self.kind() == "word" and self.peek() == "not"):
            raise Malformed("a denial is not an answer")
        if self.peek() in ("negative", "minus", "positive") and self.peek(1) == "\\infty":
            minus = self.take() != "positive"
            return negative(self.atom()) if minus else self.atom()
        if self.kind() == "word":
            return self.phrase()
        node = self.relation()
        if self.peek() in ("\\pmod", "\\bmod") or (self.peek() == "(" and self.peek(1) == "\\bmod"):
            return self.modulo(node)
        return self.quantity(node) if self.kind() == "word" or self.peek() in CURRENCIES else node

    def phrase(self) -> Node:
        """Words, which may include numbers."""
        words = list[str]()
        while self.kind() in ("word", "number", "letter") or self.peek() in ("-", "'", "."):
            words.append(self.take())
        text = " ".join(word for word in words if word not in ("the", "a", "an", ".", "-"))
        text = PHRASES.get(text, text)
        if text in ("reals", "integers", "infinity") or (len(words) == len(text) == 1):
            return name(words[0] if len(text) == 1 else text)
        if (amount := numeral(text)) is not None:
            return number(amount)
        return Node("set") if text == "no solution" else Node("words", text=text)

    def quantity(self, node: Node) -> Node:
        """A value and the words after it: a scale, percent, a unit, or a counted noun."""
        currency = ""
        if node.kind == "quantity":
            node, currency = node.parts[0], node.text
        words = list[str]()
        while self.kind() == "word" or (self.peek() in CURRENCIES and not currency):
            words.append(self.take())
        if not words:
            raise Malformed(f"unexpected {self.peek()!r}")
        if words[0] in SCALES and node.kind == "number":
            node = number(node.value * SCALES[words.pop(0)], "scaled")
        if words and words[0] == "percent" and node.kind == "number":
            node = number(node.value / 100, "percent")
            del words[0]
        text = " ".join([currency] * bool(currency) + words)
        if not text:
            return node
        if measure(text) is None and not noun(text):
            raise Malformed(f"{text!r} after a value is not a unit")
        return Node("quantity", (node,), text)

    def modulo(self, node: Node) -> Node:
        bracket = self.drop("(")
        self.take()
        modulus = self.group() if self.peek() == "{" else self.sum()
        if bracket:
            self.take(")")
        return Node("modulo", (node.parts[-1] if node.kind == "relation" else node, modulus))

    def relation(self) -> Node:
        parts, signs = [self.union()], list[str]()
        while self.peek() in RELATIONS:
            signs.append(self.take())
            parts.append(self.union())
        return Node("relation", tuple(parts), " ".join(signs)) if signs else parts[0]

    def union(self) -> Node:
        node = self.ratio()
        while (sign := self.peek()) in ("\\cup", "\\setminus", "\\cap"):
            if sign == "\\cap":
                raise Rejected("the answer leaves work undone: an intersection")
            self.take()
            other = self.ratio()
            if sign == "\\cup":
                node = Node("union", (*(node.parts if node.kind == "union" else (node,)), other))
            else:
                node = Node("difference", (node, other))
        return node

    def ratio(self) -> Node:
        parts = [self.sum()]
        while self.peek() == ":" or (self.peek() == "to" and self.kind(1) == "number"):
            self.take()
            parts.append(self.sum())
        return Node("ratio", tuple(parts)) if len(parts) > 1 else parts[0]
