r"""Tokens to a tree: recursive descent over the notation of answers.

A number in front of a fraction is a mixed number, and two numbers side by side are none. Letters side by side are a
product. `\pm` stays one node until it is expanded.
"""

from __future__ import annotations

import re
from fractions import Fraction

from gnomon.verifiers.mathematics.node import INFINITY, Node, integer, name, negative, number
from gnomon.verifiers.mathematics.notation import Token
from gnomon.verifiers.mathematics.words import FUNCTIONS, SCALES, noun
from gnomon.verifiers.number import rational
from gnomon.verifiers.slot import Malformed, Rejected
from gnomon.verifiers.units import measure

__all__ = ["parsed"]

MAX_ELEMENTS = 64
"""Elements of a list, rows of a matrix, terms of a sum."""
MAX_NODES = 60
"""Calls of the parser inside one another."""
RELATIONS = frozenset(("=", "<", ">", "\\le", "\\ge", "\\ne", "\\in", "\\approx", "\\equiv"))
SEPARATORS = frozenset((",", ";", "\\lor", "\\land"))
CLOSERS = frozenset((")", "]", "}", "\\}", "\\rangle", "\\rfloor", "\\rceil", "&", "\\\\", "\\mid"))
OPENERS = frozenset(("(", "{", "\\{", "\\langle", "\\lfloor", "\\lceil", "\\frac", "\\sqrt", "\\cbrt", "\\binom"))
GREEK = frozenset(
    r"\alpha \beta \gamma \delta \epsilon \zeta \eta \theta \iota \kappa \lambda \mu \nu \xi \pi \rho \sigma \tau \phi "
    r"\upsilon \chi \psi \omega \Gamma \Delta \Theta \Lambda \Xi \Pi \Sigma \Upsilon \Phi \Psi \Omega \ell \hbar".split()
)
WORK = {
    r"\int": "an integral", r"\iint": "an integral", r"\iiint": "an integral", r"\oint": "an integral",
    r"\sum": "a sum", r"\prod": "a product", r"\lim": "a limit", r"\det": "a determinant", r"\max": "a maximum",
    r"\min": "a minimum", r"\gcd": "a greatest common divisor", r"\lcm": "a least common multiple",
    r"\partial": "a derivative", r"\nabla": "a derivative", r"\ldots": "what an ellipsis leaves out",
}  # fmt: skip
NUMBERS = {"R": "reals", "Z": "integers", "Q": "rationals", "N": "naturals", "C": "complexes"}
PHRASES = {
    "none": "no solution", "no solutions": "no solution", "no real solution": "no solution", "empty set": "no solution",
    "no real solutions": "no solution", "no answer": "no solution", "null": "no solution",
    "does not exist": "dne", "undefined": "dne", "all real numbers": "reals", "all reals": "reals",
    "real numbers": "reals", "infinitely many solutions": "infinitely many", "infinite": "infinitely many",
    "positive infinity": "infinity",
}  # fmt: skip
DIGITS = re.compile(r"(?P<whole>[0-9]*)(?:\.(?P<decimals>[0-9]*))?(?P<rest>.*)", re.DOTALL)


def parsed(found: list[Token]) -> Node:
    """The tree of an answer. Raises: Malformed, Rejected (work that is left undone) or Several."""
    parser = _Parser(found)
    node = parser.many()
    if parser.peek() != "":
        raise Malformed(f"unexpected {parser.peek()!r}")
    return node


class _Parser:
    def __init__(self, found: list[Token]) -> None:
        self.found, self.place, self.depth, self.bars = found, 0, 0, 0

    # The tokens.

    def peek(self, ahead: int = 0) -> str:
        place = self.place + ahead
        return self.found[place].text if place < len(self.found) else ""

    def kind(self, ahead: int = 0) -> str:
        place = self.place + ahead
        return self.found[place].kind if place < len(self.found) else ""

    def take(self, expected: str = "") -> str:
        text = self.peek()
        if not text or (expected and text != expected):
            raise Malformed(f"{expected or 'something'} is missing before {text or 'the end'!r}")
        self.place += 1
        return text

    def drop(self, *texts: str) -> bool:
        """Whether one of these stood here; it is taken."""
        if self.peek() in texts and self.peek():
            self.place += 1
            return True
        return False

    # Lists of statements.

    def many(self) -> Node:
        """A single answer, or a bare list of them."""
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
        """A statement: words, or a relation with what stands behind it."""
        while self.kind() == "word" and self.peek() in ("either", "both", "approximately", "about", "roughly"):
            self.take()
        self.drop("\\approx")
        if self.peek() == "\\neg" or (self.kind() == "word" and self.peek() == "not"):
            raise Malformed("a denial is no answer")
        if self.peek() in ("negative", "minus", "positive") and self.peek(1) == "\\infty":
            return INFINITY if self.take() == "positive" and self.take() else negative(self.atom())
        if self.kind() == "word":
            return self.phrase()
        node = self.relation()
        if self.peek() in ("\\pmod", "\\bmod") or (self.peek() == "(" and self.peek(1) == "\\bmod"):
            return self.modulo(node)
        return self.counted(node) if self.kind() == "word" else node

    def phrase(self) -> Node:
        """Words alone; numbers may stand among them."""
        words = list[str]()
        while self.kind() in ("word", "number", "letter") or self.peek() in ("-", "'", "."):
            words.append(self.take())
        text = " ".join(word for word in words if word not in ("the", "a", "an", ".", "-"))
        text = PHRASES.get(text, text)
        if text in ("reals", "infinity") or (len(words) == len(text) == 1):
            return name(words[0] if len(text) == 1 else text)
        return Node("set") if text == "no solution" else Node("words", text=text)

    def counted(self, node: Node) -> Node:
        """A value and the words behind it: a scale, percent, a unit, or what is counted."""
        currency = ""
        if node.kind == "quantity":
            node, currency = node.parts[0], node.text
        words = list[str]()
        while self.kind() == "word":
            words.append(self.take())
        if words[0] in SCALES and node.kind == "number":
            node = number(node.value * SCALES[words.pop(0)], "scaled")
        if words and words[0] == "percent" and node.kind == "number":
            node = number(node.value / 100, "percent")
            del words[0]
        text = " ".join([currency] * bool(currency) + words)
        if not text:
            return node
        if measure(text) is None and not noun(text):
            raise Malformed(f"{text!r} behind a value is no unit")
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

    # Arithmetic.

    def sum(self) -> Node:
        self.depth += 1
        if self.depth > MAX_NODES:
            raise Malformed("an answer that is nested too deep")
        sign = self.peek()
        if self.drop("+", "-", "\\pm", "\\mp"):
            if self.peek() in ("+", "-", "\\pm", "\\mp"):
                raise Malformed("two signs in a row")
        else:
            sign = "+"
        node = _signed(sign, None, self.product())
        terms = [node]
        while (sign := self.peek()) in ("+", "-", "\\pm", "\\mp"):
            self.take()
            other = self.product()
            if sign in ("\\pm", "\\mp"):
                terms = [_signed(sign, _summed(terms), other)]
            else:
                terms.append(_signed(sign, None, other))
        if len(terms) > 4 * MAX_ELEMENTS:
            raise Malformed(f"a sum of over {4 * MAX_ELEMENTS} terms")
        self.depth -= 1
        return _summed(terms)

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
                    factors = [_quotient(_multiplied(factors), other)]
                else:
                    factors.append(other)
            elif self.begins():
                factors.append(self.beside(factors))
            else:
                return _multiplied(factors)

    def begins(self) -> bool:
        """Whether a factor begins here, without a sign in front of it."""
        text, kind = self.peek(), self.kind()
        if text == "|":
            return not self.bars
        if text == "(" and self.peek(1) == "\\bmod":
            return False
        return kind in ("number", "letter", "based") or text in OPENERS or text in GREEK or text in ("\\infty", "\\circ") \
            or text[1:] in FUNCTIONS and text[0] == "\\" or text in WORK or text.startswith("\\begin")  # fmt: skip

    def beside(self, factors: list[Node]) -> Node:
        """The next factor. Raises: Malformed, where it is a number beside a number."""
        whole = factors[-1]
        fraction = self.peek() == "\\frac" or (self.kind() == "number" and self.peek(1) == "/")
        start = self.place
        if integer(whole) and fraction and (part := self.proper()) is not None:
            factors.pop()
            return number(whole.value + part, "mixed")
        self.place = start
        if self.kind() in ("number", "based") and whole.kind in ("number", "based"):
            raise Malformed("numbers side by side")
        return self.power()

    def proper(self) -> Fraction | None:
        """The proper fraction of two whole numbers that stands here, if it does."""
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
        """An atom with what is written behind it: `^`, `!`, `%`, `°`."""
        node = self.atom()
        while True:
            if self.drop("^"):
                exponent = self.exponent()
                if self.peek() == "^":
                    raise Malformed("a power of a power needs parentheses")
                node = Node("power", (node, exponent))
            elif self.drop("!"):
                node = Node("call", (node,), "factorial")
            elif self.drop("%"):
                node = number(node.value / 100, "percent") if node.kind == "number" else _quotient(node, number(100))
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
        text, kind = self.peek(), self.kind()
        if kind == "number":
            return self.literal()
        if kind == "based":
            return Node("based", text=self.take())
        if kind == "letter" or text in GREEK:
            return self.variable()
        if text in ("(", "[", "]", "\\langle"):
            return self.bracketed()
        if text == "{":
            return self.group(loose=True)
        if text == "\\{":
            return self.braced()
        if text == "|":
            return self.absolute()
        if text in ("\\lfloor", "\\lceil"):
            self.take()
            inner = self.sum()
            self.take("\\rfloor" if text == "\\lfloor" else "\\rceil")
            return Node("call", (inner,), text[2:])
        if text in ("$", "£", "€"):
            self.take()
            return Node("quantity", (self.literal(),), text)
        if kind == "command":
            return self.command()
        raise Malformed(f"unexpected {text!r}" if text else "the answer ends too early")

    def literal(self) -> Node:
        """A number, with a power of ten behind it if there is one."""
        if self.kind() != "number":
            raise Malformed(f"a number is missing before {self.peek()!r}")
        node = _number(self.take())
        if self.peek() == "*" and self.peek(1) == "10" and self.peek(2) == "^" and node.text == "plain":
            start = self.place
            self.place += 3
            power = self.exponent()
            if integer(power) and abs(power.value) <= 9999 and self.peek() != "!":
                return number(node.value * Fraction(10) ** int(power.value), _scientific(node.value))
            self.place = start
        elif node.value == 10 and self.peek() == "^":
            start = self.place
            self.take()
            power = self.exponent()
            if integer(power) and abs(power.value) <= 9999:
                return number(Fraction(10) ** int(power.value), "scientific")
            self.place = start
        return node

    def variable(self) -> Node:
        """A letter with its index and its primes."""
        text = self.take()
        if self.drop("_"):
            text += "_" + self.index()
        while self.drop("'"):
            text += "'"
        return name(text)

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
        """What stands between braces. Args: loose: whether a list makes it a set."""
        self.take("{")
        if loose and self.drop("}"):
            return Node("set")
        node = self.many() if loose else self.sum()
        if self.drop("\\choose"):
            node = Node("call", (node, self.sum()), "binom")
        self.take("}")
        return Node("set", node.parts) if node.kind == "list" else node

    def bracketed(self) -> Node:
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

    def braced(self) -> Node:
        self.take("\\{")
        if self.drop("\\}"):
            return Node("set")
        if self.kind() == "letter":
            ahead = 3 if self.peek(1) == "\\in" and self.peek(2) == "\\mathbb{R}" else 1
            if self.peek(ahead) in ("|", "\\mid", ":"):
                self.place += ahead + 1
                node = self.many()
                self.take("\\}")
                return node
        node = self.many()
        self.take("\\}")
        return Node("set", node.parts if node.kind == "list" else (node,))

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
        raise Malformed(f"{text} is no part of a mathematical answer")

    def argument(self) -> Node:
        r"""The argument of a command: a group in braces, or one sign: `\frac12` is a half."""
        if self.peek() == "{":
            return self.group()
        if self.kind() == "number":
            token = self.found[self.place]
            if len(token.text) > 1 and token.text.isdigit():
                self.found[self.place] = Token("number", token.text[1:])
                return number(int(token.text[0]))
            return _number(self.take())
        return self.variable() if self.kind() == "letter" else self.atom()

    def root(self, text: str) -> Node:
        degree = number(3) if text == "\\cbrt" else number(2)
        if self.peek() == "[":
            self.take()
            degree = self.sum()
            self.take("]")
        if self.kind() == "number":  # \sqrt12 is meant as it is read.
            return Node("call", (_number(self.take()), degree), "root")
        return Node("call", (self.argument(), degree), "root")

    def function(self, text: str) -> Node:
        """A function with its base, its power and its argument, which need no brackets: `\\sin 2x`."""
        parts = list[Node]()
        if text == "log" and self.drop("_"):
            parts.append(self.argument())
        power = self.exponent() if self.drop("^") else None
        if power == number(-1) and text in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh"):
            text, power = f"arc{text}", None
        node = Node("call", (self.applied(), *parts), text)
        return node if power is None else Node("power", (node, power))

    def applied(self) -> Node:
        if self.peek() in ("(", "{", "[", "|"):
            inner = self.atom() if self.peek() != "{" else self.group()
            return inner
        if self.drop("-"):
            return negative(self.power())
        factors = [self.power()]
        while self.begins() and self.peek()[1:] not in FUNCTIONS and self.peek() not in ("(", "["):
            factors.append(self.beside(factors))
        return _multiplied(factors)

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
            raise Malformed("a matrix whose rows are not of one length")
        if len(rows) * len(rows[0]) > MAX_ELEMENTS * 4:
            raise Malformed(f"a matrix of over {MAX_ELEMENTS * 4} entries")
        return Node("matrix", tuple(Node("row", tuple(row)) for row in rows))


def _signed(sign: str, left: Node | None, node: Node) -> Node:
    if sign in ("\\pm", "\\mp"):
        return Node("pm", (left, node) if left is not None else (node,), "+" if sign == "\\pm" else "-")
    return negative(node) if sign == "-" else node


def _summed(terms: list[Node]) -> Node:
    return terms[0] if len(terms) == 1 else Node("sum", tuple(terms))


def _multiplied(factors: list[Node]) -> Node:
    return factors[0] if len(factors) == 1 else Node("product", tuple(factors))


def _quotient(top: Node, bottom: Node) -> Node:
    return Node("quotient", (top, bottom))


def _scientific(mantissa: Fraction) -> str:
    return "scientific" if 1 <= abs(mantissa) < 10 else "shifted"


def _number(text: str) -> Node:
    """The number that a token is. Raises: Malformed."""
    match = DIGITS.match(text)
    assert match is not None
    whole, decimals, rest = match["whole"], match["decimals"] or "", match["rest"].strip()
    if rest[:1] in ("e", "E") and rest:
        mantissa = rational(text[: match.end("decimals") if match["decimals"] is not None else match.end("whole")])
        return number(rational(text), _scientific(mantissa))
    value = rational(f"{whole or 0}.{decimals}") if whole or decimals else None
    if value is None and not rest:
        raise Malformed("a point without digits")
    if not rest:
        return number(value or 0)
    if rest.startswith("\\overline") or rest.startswith("\\bar") or rest.startswith("(") or rest.startswith("\\dot{") \
            or re.match(r"\\dot\s*[0-9{]", rest):  # fmt: skip
        repeated = "".join(re.findall("[0-9]", rest))
        return number(_repeating(whole, decimals, repeated), "repeating")
    cycle = re.search(r"(?P<cycle>[0-9]{1,8}?)(?P=cycle)+$", decimals)
    if cycle is None or (len(cycle["cycle"]) == 1 and len(cycle.group()) < 3):
        raise Malformed("an ellipsis behind digits that do not repeat")
    return number(_repeating(whole, decimals, cycle["cycle"]), "repeating")


def _repeating(whole: str, decimals: str, repeated: str) -> Fraction:
    cycle = Fraction(int(repeated), 10 ** len(repeated) - 1)
    return rational(f"{whole or 0}.{decimals}") + cycle / 10 ** len(decimals)
