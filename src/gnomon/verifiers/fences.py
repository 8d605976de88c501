"""Find the one block of code of a reply, between two lines of three backticks."""

from __future__ import annotations

from collections.abc import Collection

from gnomon.types import Status
from gnomon.verifiers.extract import ANY, NEVER_CLOSES, Extraction, Strictness, after_reasoning

__all__ = ["PYTHON", "fenced"]

FENCE = "```"
PYTHON = frozenset(("", "python", "python3", "py"))
"""Language names that may follow the opening fence, in upper or lower case."""
MAX_SOURCE = 64 * 1024
"""A longer block, in characters, is malformed."""


def fenced(reply: str, strictness: Strictness = Strictness.ONLY, languages: Collection[str] = PYTHON) -> Extraction:
    """The one fenced block of one of these languages. Accepts every string, in linear time; skips reasoning.

    Blocks of other languages do not count. Under `exact` and `trimmed` nothing may follow the block but white space.
    """
    begin = after_reasoning(reply)
    if begin is None:
        return Extraction(text=None, status=Status.NO_ANSWER, detail=NEVER_CLOSES)
    found, unclosed = _blocks(reply, begin, languages)
    if not found:
        detail = "a block of code never closes" if unclosed else "no fenced block of code"
        return Extraction(text=None, status=Status.NO_ANSWER, detail=detail)
    start, end, after = found[0 if strictness is Strictness.FIRST else -1]
    if len(found) > 1 and strictness not in ANY:
        return Extraction(
            text=None, status=Status.SEVERAL, span=(start, end), detail=f"{len(found)} blocks, one is allowed"
        )
    if strictness in (Strictness.EXACT, Strictness.TRIMMED) and reply[after:].strip():
        return Extraction(text=None, status=Status.OUT_OF_PLACE, span=(start, end), detail="text follows the block")
    if end - start > MAX_SOURCE:
        detail = f"code of over {MAX_SOURCE} characters"
        return Extraction(text=None, status=Status.MALFORMED, span=(start, end), detail=detail)
    if not reply[start:end].strip():
        return Extraction(text=None, status=Status.NO_ANSWER, span=(start, end), detail="the block is empty")
    return Extraction(text=reply[start:end], span=(start, end))


def _blocks(reply: str, begin: int, languages: Collection[str]) -> tuple[list[tuple[int, int, int]], bool]:
    """For every block: start and end of its code, and start of the text that follows. Also whether one never closes."""
    found: list[tuple[int, int, int]] = []
    inside: int | None = None
    counts = False
    place = begin
    while place < len(reply):
        stop = reply.find("\n", place)
        stop = len(reply) if stop < 0 else stop
        # Only the start of a line is read, up to the length of a fence.
        line = reply[place : min(stop, place + 64)].strip()
        if line.startswith(FENCE):
            if inside is None:
                inside, counts = min(stop + 1, len(reply)), line[len(FENCE) :].strip().lower() in languages
            elif line == FENCE and stop - place < 64:
                if counts:
                    end = place - 1 - reply.startswith("\r\n", max(place - 2, 0))
                    found.append((inside, max(inside, end), stop))  # Without its last line break.
                inside = None
        place = stop + 1
    return found, inside is not None and counts
