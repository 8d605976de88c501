"""Find the answer in a reply: one linear scan for slots, a strictness, and a reason when there is none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gnomon import reasoning
from gnomon.types import Status

__all__ = ["Extraction", "Strictness", "after_reasoning", "extract", "slots"]

MAX_REPLY = 256 * 1024
"""Only this many characters at the end of a reply are searched for an answer."""
MAX_SLOT = 4096
"""A longer slot, in characters, is malformed."""
NEVER_CLOSES = "the reasoning never closes"


class Strictness(StrEnum):
    """What a reply may contain besides the answer."""

    EXACT = "exact"
    """One slot, nothing after it; its text is used unchanged."""
    TRIMMED = "trimmed"
    """One slot; white space inside and after it is removed."""
    ONLY = "only"
    """One slot, with any text around it."""
    FIRST = "first"
    """Any number of slots; the first counts."""
    LAST = "last"
    """Any number of slots; the last counts."""
    LENIENT = "lenient"
    """The last slot; without one, the last line that is not empty."""


ANY = (Strictness.FIRST, Strictness.LAST, Strictness.LENIENT)
"""Strictness levels that accept several answers."""
FINAL = (Strictness.ONLY, Strictness.LAST, Strictness.LENIENT)
"""Strictness levels that allow text after the answer, and under which a later answer that never closes revokes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """The text and span of the slot, or the status that says why no slot was found."""

    text: str | None
    status: Status | None = None
    """None when `text` was found."""
    span: tuple[int, int] | None = None
    detail: str = ""


def extract(reply: str, strictness: Strictness = Strictness.TRIMMED, tag: str = "answer") -> Extraction:
    """The answer slot `<tag>…</tag>` of a reply. Every string gets an `Extraction`, in linear time.

    Slots inside reasoning (`<think>…</think>`, or the markers of other families) do not count; reasoning that never
    closes hides them all.

    Raises: ValueError for an unknown strictness.
    """
    strictness = Strictness(strictness)
    begin = after_reasoning(reply)
    if begin is None:
        return Extraction(text=None, status=Status.NO_ANSWER, detail=NEVER_CLOSES)
    answers = slots(reply, begin, tag)
    if not answers and strictness is Strictness.LENIENT:
        return _last_line(reply, begin)
    if len(answers) > 1 and strictness not in ANY:
        detail = f"{len(answers)} answers, one is allowed"
        return Extraction(text=None, status=Status.SEVERAL, span=answers[0], detail=detail)
    unclosed = reply.find(f"<{tag}>", answers[-1][1] if answers else begin) >= 0
    if not answers or (unclosed and strictness in FINAL):
        detail = f"<{tag}> opens and never closes" if unclosed else f"no <{tag}>…</{tag}> in the reply"
        return Extraction(text=None, status=Status.NO_ANSWER, detail=detail)
    return _read(reply, answers[0 if strictness is Strictness.FIRST else -1], strictness, len(f"</{tag}>"))


def after_reasoning(reply: str) -> int | None:
    """Index at which the search for an answer begins; None if the reasoning never closes."""
    begin = reasoning.after_reasoning(reply)
    return None if begin is None else max(begin, len(reply) - MAX_REPLY)


def slots(reply: str, begin: int, tag: str = "answer") -> list[tuple[int, int]]:
    """Spans between an opening tag and the next closing one; a tag re-opened inside moves the start."""
    spans: list[tuple[int, int]] = []
    opening, closing = f"<{tag}>", f"</{tag}>"
    position = begin
    while (end := reply.find(closing, position)) >= 0:
        start = reply.rfind(opening, position, end)
        if start >= 0:
            spans.append((start + len(opening), end))
        position = end + len(closing)
    return spans


def _last_line(reply: str, begin: int) -> Extraction:
    """The last non-empty line of a reply that has no slot."""
    end = begin + len(reply[begin:].rstrip())
    line = reply[max(begin, reply.rfind("\n", begin, end) + 1) : end]
    text = line.strip()
    start = end - len(line) + len(line) - len(line.lstrip())
    if not text:
        return Extraction(text=None, status=Status.NO_ANSWER, detail="the reply has no slot and no last line")
    if len(text) > MAX_SLOT:
        detail = f"an answer of over {MAX_SLOT} characters"
        return Extraction(text=None, status=Status.MALFORMED, span=(start, end), detail=detail)
    return Extraction(text=text, span=(start, start + len(text)))


def _read(reply: str, span: tuple[int, int], strictness: Strictness, closing: int) -> Extraction:
    start, end = span
    after = reply[end + closing :]
    if (strictness is Strictness.EXACT and after) or (strictness is Strictness.TRIMMED and after.strip()):
        return Extraction(text=None, status=Status.OUT_OF_PLACE, span=span, detail="text follows the answer")
    if end - start > MAX_SLOT:
        detail = f"an answer of over {MAX_SLOT} characters"
        return Extraction(text=None, status=Status.MALFORMED, span=span, detail=detail)
    text = reply[start:end]
    if strictness is not Strictness.EXACT:
        stripped = text.strip()
        start += len(text) - len(text.lstrip())
        text, end = stripped, start + len(stripped)
    if not text:
        return Extraction(text=None, status=Status.NO_ANSWER, span=span, detail="the answer is empty")
    return Extraction(text=text, span=(start, end))
