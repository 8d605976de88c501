"""An answer as it was written, and as a tree."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gnomon.verifiers.mathematics.bound import rebound
from gnomon.verifiers.mathematics.calendar import DRESS, dated
from gnomon.verifiers.mathematics.grammar import parsed
from gnomon.verifiers.mathematics.node import Node, walk
from gnomon.verifiers.mathematics.notation import one_line, tokens
from gnomon.verifiers.mathematics.words import sorted_out
from gnomon.verifiers.slot import Malformed, Rejected, Several
from gnomon.verifiers.text import unwrapped

__all__ = ["USUAL", "Answer", "Reading", "normalise", "option", "parse_answer", "readings", "spoken", "worded"]

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
    if (date := dated(text)) is not None and (date[0] == "date" or date[3]):
        return Answer(" ".join(date), Node("words", text=" ".join(date)))
    signs = sorted_out(tokens(text, thousands=reading.thousands), units=reading.units)
    if not signs:
        raise Malformed("the answer contains only layout")
    return Answer(one_line(rebound(signs)), parsed(signs))


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
    return WORDED.fullmatch(spoken(text)) is not None and ("\\text" in text or LONG.search(text) is not None)


def spoken(text: str) -> str:
    """The words of an answer in lower case."""
    return " ".join(DRESS.sub(" ", text).lower().strip(" .").split())


def option(text: str) -> tuple[str, str] | None:
    """The letter of a multiple-choice option and the text after it; None for any other text."""
    match = OPTION.fullmatch(unwrapped(text.strip().strip("$")).removeprefix("**"))
    if match is None or (match["rest"].strip() and not match["open"] and not match["stop"]):
        return None
    return match["letter"], match["rest"].strip()
