"""An answer as it was written, and as a tree."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gnomon.verifiers.mathematics.calendar import DRESS, dated
from gnomon.verifiers.mathematics.grammar import parsed
from gnomon.verifiers.mathematics.node import Node
from gnomon.verifiers.mathematics.notation import shown, tokens
from gnomon.verifiers.mathematics.words import sorted_out
from gnomon.verifiers.slot import Malformed

__all__ = ["USUAL", "Answer", "Reading", "option", "read", "readings", "spoken", "worded", "written"]

LEAD = re.compile(
    r"\s*(?:\\text(?:bf|it|rm)?\s*\{)?\s*(?:(?:the|my)\s+)?(?:final\s+)?answer\s*(?:is\s*:?|:|=)\s*(?P<close>\})?", re.I
)
OPTION = re.compile(
    r"\s*(?:\\(?:text|textbf|mathrm|mathbf|textit|textrm)\s*\{+)?\s*(?P<open>\()?\s*(?:\\(?:text|textbf|mathrm)\s*\{)?"
    r"(?P<letter>[A-J])\}?\s*(?(open)\)|[.):]?)\s*\}*(?P<rest>.*)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """How what has two readings is read."""

    thousands: bool = True
    """`1,234` outside of brackets is one number, else two."""
    units: bool = True
    """A letter behind a number and a space, as in `5 m`, is a unit, else a factor."""


USUAL = Reading()
WORDED = re.compile(r"[a-z0-9 ,.'-]*[a-z]{2}[a-z0-9 ,.'-]*")
LONG = re.compile("[a-zA-Z]{4}")
GROUPED = re.compile(r"[0-9],[0-9]{3}")
LETTER = re.compile(r"[0-9})]\s*(?:\s|~|\\[,;: ])\s*[a-zA-Z](?![a-zA-Z])")


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    """Its tokens in one line, the same for texts that differ in layout alone."""
    node: Node | None
    """None for a gold that cannot be read; it is equal to its own text alone."""


def read(text: str, reading: Reading = USUAL) -> Answer:
    """An answer as a tree. Raises: Malformed, Rejected or Several, for what is none."""
    lead = LEAD.match(text)
    text = text[lead.end() :] if lead is not None else text
    if (found := dated(text)) is not None and (found[0] == "date" or found[3]):
        return Answer(" ".join(found), Node("words", text=" ".join(found)))
    signs = sorted_out(tokens(text, thousands=reading.thousands), units=reading.units)
    if not signs:
        raise Malformed("nothing but layout")
    return Answer(shown(signs), parsed(signs))


def readings(text: str) -> tuple[Reading, ...]:
    """The readings that a text has, the usual one first. An answer is right if it is under one of them."""
    others = [Reading(thousands=False)] * bool(GROUPED.search(text)) + [Reading(units=False)] * bool(
        LETTER.search(text)
    )
    return USUAL, *others


def written(text: str, reading: Reading = USUAL) -> str:
    """The text of an answer that need not be readable."""
    return shown(sorted_out(tokens(text, thousands=reading.thousands), units=reading.units))


def worded(text: str) -> bool:
    """Whether a text is words, with nothing but numbers and commas among them."""
    return WORDED.fullmatch(spoken(text)) is not None and ("\\text" in text or LONG.search(text) is not None)


def spoken(text: str) -> str:
    """The words of an answer in small letters."""
    return " ".join(DRESS.sub(" ", text).lower().strip(" .").split())


def option(text: str) -> tuple[str, str] | None:
    """The letter of a multiple choice and what is written behind it; None, for any other text."""
    match = OPTION.fullmatch(text.strip().strip("$"))
    if match is None or (match["rest"].strip() and not match["open"]):
        return None
    return match["letter"], match["rest"].strip()
