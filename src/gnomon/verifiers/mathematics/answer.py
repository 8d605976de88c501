"""An answer as it was written, and as a tree, in which the names of bound variables play no part."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from gnomon.verifiers.mathematics.calendar import DRESS, parse_date
from gnomon.verifiers.mathematics.grammar import parse
from gnomon.verifiers.mathematics.node import Node, walk
from gnomon.verifiers.mathematics.notation import Token, one_line, tokens
from gnomon.verifiers.mathematics.words import sorted_out
from gnomon.verifiers.slot import Malformed, Rejected, Several
from gnomon.verifiers.text import unwrap

__all__ = [
    "USUAL",
    "Answer",
    "Reading",
    "normalise",
    "option",
    "parse_answer",
    "readings",
    "rebound",
    "worded",
    "words_of",
]

LEAD = re.compile(
    r"\s*(?:\\text(?:bf|it|rm)?\s*\{)?\s*(?:(?:the|my)\s+)?(?:final\s+)?answer\s*(?:is\s*:?|:|=)\s*(?P<close>\})?", re.I
)
OPTION = re.compile(
    r"\s*(?:\\(?:text|textbf|mathrm|mathbf|textit|textrm)\s*\{+)?\s*(?:(?:[Oo]ption|[Cc]hoice)\s+)?(?P<open>\()?\s*"
    r"(?:\\(?:text|textbf|mathrm)\s*\{)?(?P<letter>[A-J])\}?\s*(?(open)\)|(?P<stop>[.):](?=[\s}*]|$)|))\s*[}*]*"
    r"(?P<rest>.*)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """How ambiguous notation is parsed."""

    thousands: bool = True
    """`1,234` outside brackets is one number if true, else two."""
    units: bool = True
    """A letter after a number and a space, as in `5 m`, is a unit if true, else a factor."""


USUAL = Reading()
WORDED = re.compile(r"[a-z0-9 ,.'-]*[a-z]{2}[a-z0-9 ,.'-]*")
LONG = re.compile("[a-zA-Z]{4}")
GROUPED = re.compile(r"[0-9],[0-9]{3}")
LETTER = re.compile(r"[0-9})]\s*(?:\s|~|\\[,;: ])\s*[a-zA-Z](?![a-zA-Z])")


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    """Its tokens in one line. Texts that differ only in layout have the same line."""
    node: Node | None
    """None for a reference that cannot be parsed; it equals only its own text."""


def parse_answer(text: str, reading: Reading = USUAL) -> Answer:
    """Parse an answer. Raises: Malformed, Rejected or Several if the text is not one answer."""
    lead = LEAD.match(text)
    text = text[lead.end() :] if lead is not None else text
    if (date := parse_date(text)) is not None and (date[0] == "date" or date[3]):
        return Answer(" ".join(date), Node("words", text=" ".join(date)))
    signs = sorted_out(tokens(text, thousands=reading.thousands), units=reading.units)
    if not signs:
        raise Malformed("the answer contains only layout")
    return Answer(one_line(rebound(signs)), parse(signs))


def readings(answer: str, gold: str) -> tuple[Reading, ...]:
    """The possible readings, the usual one first. An answer is correct if it is correct under one of them.

    A gold such as `1,234` is a number. In a list, the same text can be two elements.
    """
    lists = bool(GROUPED.search(answer + " " + gold)) and (not GROUPED.search(gold) or _listed(gold))
    others = [Reading(thousands=False)] * lists + [Reading(units=False)] * bool(LETTER.search(answer + " " + gold))
    return USUAL, *others


def _listed(text: str) -> bool:
    try:
        node = parse_answer(text).node
    except (Malformed, Rejected, Several):
        return True
    return node is None or any(part.kind in ("list", "set", "tuple") for part in walk(node))


def normalise(text: str, reading: Reading = USUAL) -> str:
    """The normalised text of an answer, which need not be parseable."""
    return one_line(rebound(sorted_out(tokens(text, thousands=reading.thousands), units=reading.units)))


def worded(text: str) -> bool:
    """Whether a text consists of words, numbers and commas."""
    return WORDED.fullmatch(words_of(text)) is not None and ("\\text" in text or LONG.search(text) is not None)


def words_of(text: str) -> str:
    """The words of an answer in lower case."""
    return " ".join(DRESS.sub(" ", text).lower().strip(" .").split())


def option(text: str) -> tuple[str, str] | None:
    """The letter of a multiple-choice option and the text after it; None for any other text."""
    match = OPTION.fullmatch(unwrap(text.strip().strip("$")).removeprefix("**"))
    if match is None or (match["rest"].strip() and not match["open"] and not match["stop"]):
        return None
    return match["letter"], match["rest"].strip()


INTEGRALS = {"\\int": 1, "\\oint": 1, "\\iint": 2, "\\iiint": 3}
"""Number of variables that an integral binds."""
INDEXED = {"\\sum": "=", "\\prod": "=", "\\lim": "\\to"}
"""The sign after the variable that the command binds."""
BOUND = "bound "
ENDS = frozenset(("+", "-", "=", ",", ";", "<", ">", "\\le", "\\ge", "\\ne", "\\approx"))
OPENING, CLOSING = frozenset(("{", "(", "[", "\\{")), frozenset(("}", ")", "]", "\\}"))


def rebound(tokens: list[Token]) -> list[Token]:
    """The tokens with every bound variable replaced by a number. An integral without limits binds nothing."""
    result, number = list(tokens), 0
    for i in reversed(range(len(result))):
        for name, spans in _bindings(result, i):
            number += 1
            for start, end in spans:
                inside = result[start:end]
                result[start:end] = [replace(t, text=f"{BOUND}{number}") if _is(t, name) else t for t in inside]
    return result


def _bindings(tokens: list[Token], i: int) -> list[tuple[str, list[tuple[int, int]]]]:
    """The variables that the token at this place binds, each with the spans in which it does."""
    text, start = tokens[i].text, _after_limits(tokens, i + 1)
    if text in INTEGRALS and start > i + 1:
        return _integrand(tokens, start, INTEGRALS[text])
    if text in INDEXED and [token.text for token in tokens[i + 1 : i + 3]] == ["_", "{"]:
        index = tokens[i + 3 : i + 5]
        if len(index) == 2 and index[0].kind == "letter" and index[1].text == INDEXED[text]:
            return [(index[0].text, [(i + 3, i + 4), (start, _summand(tokens, start))])]
    return []


def _is(token: Token, name: str) -> bool:
    return token.kind == "letter" and token.text == name


def _integrand(tokens: list[Token], start: int, count: int) -> list[tuple[str, list[tuple[int, int]]]]:
    """As many variables as an integral has, with its integrand and the differentials."""
    names = list[str]()
    depth = 0
    for at in range(start, len(tokens)):
        depth += (tokens[at].text in OPENING) - (tokens[at].text in CLOSING)
        if depth < 0:
            break
        differential = at > start and tokens[at].kind == "letter" and _is(tokens[at - 1], "d")
        if differential and not tokens[at].text.startswith(BOUND):
            names.append(tokens[at].text)
            if len(names) == count:
                end = _closing_place(tokens, at + 1, depth)
                # `\\frac{dx}{x}`: the denominator is a part of the integrand.
                return [(name, [(start, _group(tokens, end) if depth else end)]) for name in names]
    return []


def _summand(tokens: list[Token], start: int) -> int:
    """Where the product that begins at `start` ends."""
    depth = 0
    for at in range(start, len(tokens)):
        text = tokens[at].text
        depth += (text in OPENING) - (text in CLOSING)
        if depth < 0 or (not depth and (text in ENDS or tokens[at].kind == "word")):
            return at
    return len(tokens)


def _after_limits(tokens: list[Token], i: int) -> int:
    """Where the limits of an operator end."""
    while i < len(tokens) and tokens[i].text in ("_", "^"):
        i = _group(tokens, i + 1) if i + 1 < len(tokens) and tokens[i + 1].text == "{" else i + 2
    return i


def _group(tokens: list[Token], i: int) -> int:
    """Where the group in braces at this place ends; the place itself if none begins there."""
    if i >= len(tokens) or tokens[i].text != "{":
        return i
    return _closing_place(tokens, i + 1, 1)


def _closing_place(tokens: list[Token], i: int, depth: int) -> int:
    """The place after as many closing brackets as are open."""
    while i < len(tokens) and depth > 0:
        depth += (tokens[i].text in OPENING) - (tokens[i].text in CLOSING)
        i += 1
    return i
