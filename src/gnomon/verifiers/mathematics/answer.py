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

__all__ = ["Answer", "ambiguous", "option", "read", "spoken", "written"]

LEAD = re.compile(
    r"\s*(?:\\text(?:bf|it|rm)?\s*\{)?\s*(?:(?:the|my)\s+)?(?:final\s+)?answer\s*(?:is\s*:?|:|=)\s*(?P<close>\})?", re.I
)
OPTION = re.compile(
    r"\s*(?:\\(?:text|textbf|mathrm|mathbf|textit|textrm)\s*\{+)?\s*(?P<open>\()?\s*(?:\\(?:text|textbf|mathrm)\s*\{)?"
    r"(?P<letter>[A-J])\}?\s*(?(open)\)|[.):]?)\s*\}*(?P<rest>.*)",
    re.DOTALL,
)
GROUPED = re.compile(r"[0-9],[0-9]{3}")


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    """Its tokens in one line, the same for texts that differ in layout alone."""
    node: Node | None
    """None for a gold that cannot be read; it is equal to its own text alone."""


def read(text: str, *, thousands: bool = True) -> Answer:
    """An answer as a tree. Raises: Malformed, Rejected or Several, for what is none."""
    lead = LEAD.match(text)
    text = text[lead.end() :] if lead is not None else text
    if (found := dated(text)) is not None and (found[0] == "date" or found[3]):
        return Answer(" ".join(found), Node("words", text=" ".join(found)))
    signs = sorted_out(tokens(text, thousands=thousands))
    if not signs:
        raise Malformed("nothing but layout")
    return Answer(shown(signs), parsed(signs))


def written(text: str, thousands: bool = True) -> str:
    """The text of an answer that need not be readable."""
    return shown(sorted_out(tokens(text, thousands=thousands)))


def spoken(text: str) -> str:
    """The words of an answer in small letters."""
    return " ".join(DRESS.sub(" ", text).lower().strip(" .").split())


def ambiguous(text: str) -> bool:
    """Whether a comma may separate thousands or elements."""
    return GROUPED.search(text) is not None


def option(text: str) -> tuple[str, str] | None:
    """The letter of a multiple choice and what is written behind it; None, for any other text."""
    match = OPTION.fullmatch(text.strip().strip("$"))
    if match is None or (match["rest"].strip() and not match["open"]):
        return None
    return match["letter"], match["rest"].strip()
