r"""Tokens to formulas: recursive descent.

A number in front of a fraction is a mixed number. Two adjacent numbers are an error. Adjacent letters are a product.
`\pm` stays one node until it is expanded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction

from gnomon.verifiers.mathematics.literal import literal, scientific
from gnomon.verifiers.mathematics.node import INFINITY, Node, integer, name, negative, number
from gnomon.verifiers.mathematics.notation import Token
from gnomon.verifiers.mathematics.signs import GREEK_COMMANDS as GREEK
from gnomon.verifiers.mathematics.vocabulary import FUNCTIONS, NUMBERS, WORK
from gnomon.verifiers.slot import Malformed, Rejected

__all__ = ["CURRENCIES", "MAX_ELEMENTS", "Arithmetic"]

MAX_ELEMENTS = 64
"""Elements of a list."""
MAX_TERMS = 256
"""Terms of a sum, entries of a matrix."""
MAX_NESTED = 40
"""Formulas inside one another."""
CURRENCIES = ("$", "£", "€")
OPENERS = frozenset(
    ("(", "{", "\\{", "\\langle", "\\lfloor", "\\lceil", "\\frac", "\\sqrt", "\\cbrt", "\\binom", "\\infty")
)
MARKS = frozenset((r"\bar", r"\overline", r"\tilde", r"\widetilde", r"\angle", r"\triangle", r"\measuredangle"))
"""Commands that turn the letters after them into one name."""


class Arithmetic(ABC):
    """Parses sums, products, powers and their parts. `many` parses the content of brackets."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens, self.position, self.depth, self.bars = tokens, 0, 0, 0

    @abstractmethod
    def many(self) -> Node:
        """A single answer, or a list of them."""

    @abstractmethod
    def item(self) -> Node:
        """A single answer."""

    # The tokens.

    def peek(self, ahead: int = 0) -> str:
        position = self.position + ahead
        return self.tokens[position].text if position < len(self.tokens) else ""

    def kind(self, ahead: int = 0) -> str:
        position = self.position + ahead
        return self.tokens[position].kind if position < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        text = self.peek()
        if not text or (expected and text != expected):
            raise Malformed(f"{expected or 'something'} is missing before {text or 'the end'!r}")
        self.position += 1
        return text

    def drop(self, *texts: str) -> bool:
        """Consume one of these tokens if it is next. Returns: whether it was."""
        if self.peek() in texts and self.peek():
            self.position += 1
            return True
        return False

    # Formulas.

    def sum(self) -> Node:
        sign = self.peek()
        if self.drop("+", "-", "\\pm", "\\mp"):
            if self.peek() in ("+", "-", "\\pm", "\\mp"):
                raise Malformed("two signs in a row")
        else:
            sign = "+"
        node = _with_sign(sign, None, self.product())
        terms = [node]
        while (sign := self.peek()) in ("+", "-", "\\pm", "\\mp"):
            self.take()
            sign = self.joint_sign(sign)
            other = self.product()
            if sign in ("\\pm", "\\mp"):
                terms = [_with_sign(sign, _sum(terms), other)]
            else:
                terms.append(_with_sign(sign, None, other))
        if len(terms) > MAX_TERMS:
            raise Malformed(f"a sum of over {MAX_TERMS} terms")
        return _sum(terms)

    def joint_sign(self, sign: str) -> str:
        """The sign, together with a sign after it, as in `x + -1`. `+-` without a space means ± and is not read."""
        if sign in ("+", "-") and self.peek() in ("+", "-") and self.tokens[self.position].spaced:
            return "+" if self.take() == sign else "-"
        return sign

    def product(self) -> Node:
        factors = [self.power()]
        while True:
            sign = self.peek()
            if sign in ("*", "/"):
                self.take()
                minus = self.drop("-")
                other = self.power()
                other = negative(other) if minus else other
                if sign == "/":
                    factors = [_quotient(_multiply(factors), other)]
                else:
                    factors.append(other)
            elif self.begins():
                factors.append(self.beside(factors))
            else:
                return _multiply(factors)

    def begins(self) -> bool:
        """Whether an unsigned factor begins here."""
        text, kind = self.peek(), self.kind()
        if text == "|":
            return not self.bars
        if text == "(" and self.peek(1) == "\\bmod":
            return False
        if kind in ("number", "letter", "based") or (text[:1] == "\\" and text[1:] in FUNCTIONS):
            return True
        return text in OPENERS or text in GREEK or text in MARKS or text in WORK or text.startswith("\\begin")

    def beside(self, factors: list[Node]) -> Node:
        """The next factor. Raises: Malformed if two numbers are adjacent."""
        whole = factors[-1]
        currency = whole.text if whole.kind == "quantity" and whole.text in CURRENCIES else ""
        whole = whole.parts[0] if currency else whole
        texts = (self.peek(), self.peek(1))
        fraction = "\\frac" in (texts[0], texts[1] * (texts[0] == "{")) or (self.kind() == "number" and texts[1] == "/")
        start = self.position
        if integer(whole) and fraction and (part := self.proper()) is not None:
            factors.pop()
            mixed = (
                _percent(number(whole.value + part, "mixed")) if self.drop("%") else number(whole.value + part, "mixed")
            )
            return Node("quantity", (mixed,), currency) if currency else mixed
        self.position = start
        if self.kind() in ("number", "based") and whole.kind in ("number", "based"):
            raise Malformed("numbers side by side")
        return self.power()

    def proper(self) -> Fraction | None:
        """The proper fraction of two whole numbers at this place, if there is one."""
        parts: tuple[Node, ...]
        if self.kind() == "number":
            top, _, bottom = self.atom(), self.take("/"), self.atom()
            parts = (top, bottom)
        else:
            parts = self.atom().parts
        if len(parts) != 2 or not all(integer(part) for part in parts) or self.peek() in ("^", "!"):
            return None
        top, bottom = parts
        return top.value / bottom.value if 0 < top.value < bottom.value else None

    def power(self) -> Node:
        """An atom with its suffixes: `^`, `!`, `%`, `°`."""
        node = self.atom()
        while True:
            if self.drop("^"):
                exponent = self.exponent()
                if self.peek() == "^":
                    raise Malformed("a power of a power needs parentheses")
                node = Node("power", (node, exponent))
            elif self.drop("!"):
                if self.peek() == "!":
                    raise Malformed("a double factorial, or a factorial of a factorial without parentheses")
                node = Node("call", (node,), "factorial")
            elif self.drop("%"):
                node = _percent(node)
            elif self.drop("°"):
                text = "°" if self.kind() != "letter" or self.peek() not in ("C", "F") else "°" + self.take()
                node = Node("quantity", (node,), text)
            else:
                return node

    def exponent(self) -> Node:
        if self.peek() == "{":
            return self.group()
        if self.peek() in ("-", "+"):
            minus = self.take() == "-"
            node = self.atom()
            return negative(node) if minus else node
        return self.atom()

    def atom(self) -> Node:
        self.depth += 1
        if self.depth > MAX_NESTED:
            raise Malformed("an answer that is nested too deep")
        node = self.unit()
        self.depth -= 1
        return node

    def unit(self) -> Node:
        """A number, a name, a bracket or a command."""
        text, kind = self.peek(), self.kind()
        if kind == "number":
            return self.literal()
        if kind == "based":
            return Node("based", text=self.take())
        if kind == "letter" or text in GREEK:
            return self.variable()
        if text in MARKS:
            return self.marked_name()
        if text in ("(", "[", "]", "\\langle"):
            return self.brackets()
        if text == "{":
            return self.group(loose=True)
        if text == "\\{":
            return self.braces()
        if text == "|":
            return self.absolute()
        if text in ("\\lfloor", "\\lceil"):
            self.take()
            inner = self.sum()
            self.take("\\rfloor" if text == "\\lfloor" else "\\rceil")
            return Node("call", (inner,), text[2:])
        if text in CURRENCIES:
            self.take()
            return Node("quantity", (self.literal(),), text)
        if kind == "command":
            return self.command()
        raise Malformed(f"unexpected {text!r}" if text else "the answer ends too early")

    def literal(self) -> Node:
        """A number, with a power of ten if one follows."""
        if self.kind() != "number":
            raise Malformed(f"a number is missing before {self.peek()!r}")
        node = literal(self.take())
        if self.peek() == "*" and self.peek(1) == "10" and self.peek(2) == "^" and node.text == "plain":
            start = self.position
            self.position += 3
            power = self.exponent()
            if integer(power) and abs(power.value) <= 9999 and self.peek() != "!":
                return number(node.value * Fraction(10) ** int(power.value), scientific(node.value))
            self.position = start
        elif node.value == 10 and self.peek() == "^":
            start = self.position
            self.take()
            power = self.exponent()
            if integer(power) and abs(power.value) <= 9999:
                return number(Fraction(10) ** int(power.value), "scientific")
            self.position = start
        return node

    def variable(self) -> Node:
        """A letter with its index and its primes."""
        text = self.take()
        if self.drop("_"):
            text += "_" + self.index()
        while self.drop("'"):
            text += "'"
        return name(text)

    def marked_name(self) -> Node:
        """Letters under a bar or after an angle sign; they form one name."""
        mark, letters = self.take(), ""
        braced = self.drop("{")
        while self.kind() == "letter":
            letters += self.take()
        if braced:
            self.take("}")
        if not letters:
            raise Malformed(f"letters are missing after {mark}")
        return name(f"{mark} {letters}")

    def index(self) -> str:
        if self.peek() != "{":
            return self.take()
        depth, parts = 0, list[str]()
        while True:
            token = self.take()
            depth += (token == "{") - (token == "}")
            if not depth:
                return " ".join(parts[1:])
            parts.append(token)

    def group(self, loose: bool = False) -> Node:
        """The content of braces. Args: loose: whether a list in braces is a set."""
        self.take("{")
        if loose and self.drop("}"):
            return Node("set")
        if loose and self.set_builder():
            loose = False
            node = self.many()
        else:
            node = self.many() if loose else self.sum()
        if self.drop("\\choose"):
            node = Node("call", (node, self.sum()), "binom")
        self.take("}")
        return Node("set", node.parts) if node.kind == "list" else node

    def brackets(self) -> Node:
        opening = self.take()
        bars, self.bars = self.bars, 0
        node = self.many()
        self.bars = bars
        closing = self.take()
        if opening == "\\langle":
            if closing != "\\rangle":
                raise Malformed("a bracket never closes")
            return Node("tuple", node.parts if node.kind == "list" else (node,), "<>")
        if closing not in (")", "]", "["):
            raise Malformed("a bracket never closes")
        if node.kind != "list":
            if (opening, closing) not in (("(", ")"), ("[", "]")):
                raise Malformed("a bracket is closed by another")
            return node
        return Node("tuple", node.parts, ("(" if opening == "]" else opening) + (")" if closing == "[" else closing))

    def braces(self) -> Node:
        self.take("\\{")
        if self.drop("\\}"):
            return Node("set")
        if self.set_builder():
            node = self.many()
            self.take("\\}")
            return node
        node = self.many()
        self.take("\\}")
        return Node("set", node.parts if node.kind == "list" else (node,))

    def set_builder(self) -> bool:
        r"""Consume `x \mid` of a set-builder if it is next. Returns: whether it was."""
        ahead = 3 if self.peek(1) == "\\in" else 1
        if self.kind() != "letter" or self.peek(ahead) not in ("|", "\\mid", ":"):
            return False
        self.position += ahead + 1
        return True

    def absolute(self) -> Node:
        self.take("|")
        self.bars += 1
        node = self.sum()
        self.bars -= 1
        self.take("|")
        return Node("call", (node,), "abs")

    def command(self) -> Node:
        text = self.take()
        if text in WORK:
            raise Rejected(f"the answer leaves work undone: {WORK[text]}")
        if text == "\\infty":
            return INFINITY
        if text == "\\emptyset":
            return Node("set")
        if text == "\\mathbb":
            self.drop("{")
            letter = self.take()
            self.drop("}")
            return name(NUMBERS.get(letter, f"set {letter}"))
        if text == "\\frac":
            top = self.argument()
            bottom = self.argument()
            if top == name("d"):
                raise Rejected("the answer leaves work undone: a derivative")
            return _quotient(top, bottom)
        if text == "\\binom":
            return Node("call", (self.argument(), self.argument()), "binom")
        if text in ("\\sqrt", "\\cbrt"):
            return self.root(text)
        if text.startswith("\\begin"):
            return self.matrix(text[len("\\begin{") :].rstrip("}"))
        if text[1:] in FUNCTIONS:
            return self.function(text[1:])
        raise Malformed(f"{text} is not part of a mathematical answer")

    def argument(self) -> Node:
        r"""The argument of a command: a group in braces, or one sign: `\frac12` is a half."""
        if self.peek() == "{":
            return self.group()
        if self.kind() == "number":
            token = self.tokens[self.position]
            if len(token.text) > 1 and token.text.isdigit():
                self.tokens[self.position] = Token("number", token.text[1:])
                return number(int(token.text[0]))
            return literal(self.take())
        return self.variable() if self.kind() == "letter" else self.atom()

    def root(self, text: str) -> Node:
        degree = number(3) if text == "\\cbrt" else number(2)
        if self.peek() == "[":
            self.take()
            degree = self.sum()
            self.take("]")
        if self.kind() == "number":  # `\sqrt12` means the root of 12.
            return Node("call", (literal(self.take()), degree), "root")
        return Node("call", (self.argument(), degree), "root")

    def function(self, text: str) -> Node:
        """A function with its base, its power and its argument, which need no brackets: `\\sin 2x`."""
        parts = list[Node]()
        if text == "log" and self.drop("_"):
            parts.append(self.argument())
        power = self.exponent() if self.drop("^") else None
        if power == number(-1) and text in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh"):
            text, power = f"arc{text}", None
        node = Node("call", (self.application(), *parts), text)
        return node if power is None else Node("power", (node, power))

    def application(self) -> Node:
        if self.peek() in ("(", "{", "[", "|"):
            inner = self.atom() if self.peek() != "{" else self.group()
            return inner
        if self.drop("-"):
            return negative(self.power())
        factors = [self.power()]
        while self.begins() and self.peek()[1:] not in FUNCTIONS and self.peek() not in ("(", "["):
            factors.append(self.beside(factors))
        return _multiply(factors)

    def matrix(self, kind: str) -> Node:
        if kind not in ("pmatrix", "bmatrix", "matrix", "smallmatrix", "array", "Bmatrix", "cases"):
            raise Rejected(f"the answer leaves work undone: {kind}")
        rows = [list[Node]()]
        while True:
            if self.peek() == f"\\end{{{kind}}}":
                self.take()
                break
            rows[-1].append(self.item())
            if self.drop("\\\\"):
                if self.peek() != f"\\end{{{kind}}}":
                    rows.append([])
            elif not self.drop("&") and self.peek() != f"\\end{{{kind}}}":
                raise Malformed(f"unexpected {self.peek()!r} in a matrix")
        if len({len(row) for row in rows}) != 1 or not rows[0]:
            raise Malformed("the rows of the matrix have different lengths")
        if len(rows) * len(rows[0]) > MAX_TERMS:
            raise Malformed(f"a matrix of over {MAX_TERMS} entries")
        return Node("matrix", tuple(Node("row", tuple(row)) for row in rows))


def _with_sign(sign: str, left: Node | None, node: Node) -> Node:
    if sign in ("\\pm", "\\mp"):
        return Node("pm", (left, node) if left is not None else (node,), "+" if sign == "\\pm" else "-")
    return negative(node) if sign == "-" else node


def _sum(terms: list[Node]) -> Node:
    return terms[0] if len(terms) == 1 else Node("sum", tuple(terms))


def _multiply(factors: list[Node]) -> Node:
    return factors[0] if len(factors) == 1 else Node("product", tuple(factors))


def _percent(node: Node) -> Node:
    return number(node.value / 100, "percent") if node.kind == "number" else _quotient(node, number(100))


def _quotient(top: Node, bottom: Node) -> Node:
    return Node("quotient", (top, bottom))
