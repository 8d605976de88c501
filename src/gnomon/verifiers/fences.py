"""Find the one block of code of a reply, between two lines of three or more backticks."""

from __future__ import annotations

import re
from collections.abc import Callable

from gnomon.types import Status
from gnomon.verifiers.extract import ANY, FINAL, NEVER_CLOSES, Extraction, Strictness, after_reasoning

__all__ = ["BLANK", "PYTHON", "VISIBLE", "read_fence"]

INVISIBLE = "\ufeff\u200b\u200c\u200d\u200e\u200f\u2060"
"""Characters without width: a byte order mark, spaces, joiners and marks of direction."""
BLANK = " \t\r\n\f" + INVISIBLE
VISIBLE = str.maketrans("", "", INVISIBLE)
FENCE = 3
"""Smallest number of backticks."""
PYTHON = frozenset(("", "python", "python3", "py"))
"""Language names that may follow the opening fence, in upper or lower case."""
LANGUAGE = re.compile(r"\{?\.?([^\s{}:,;]*)")
"""The first word of an info string, as in `python title="a.py"`, `python:a.py` and `{.python}`."""
TOKEN = re.compile(
    r"""#[^\n]*|("{3}|'{3})(?:\\.|[^\\])*?(?:(?P<closes>\1)|\Z)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?""", re.DOTALL
)
"""A comment or a string of Python."""
MAX_SOURCE = 64 * 1024
"""A longer block, in characters, is malformed."""


def read_fence(reply: str, strictness: Strictness = Strictness.ONLY) -> Extraction:
    """The one fenced block of Python, or of no named language. Accepts every string, in linear time; skips reasoning.

    A fence closes with at least as many backticks as it opened with; one in a docstring does not close the block.
    Blocks of other languages do not count. Under `exact` and `trimmed` nothing may follow the block but white space.
    """
    begin = after_reasoning(reply)
    if begin is None:
        return Extraction(text=None, status=Status.NO_ANSWER, detail=NEVER_CLOSES)
    blocks, unclosed = _blocks(reply, begin)
    if len(blocks) > 1 and strictness not in ANY:
        detail = f"{len(blocks)} blocks, one is allowed"
        return Extraction(text=None, status=Status.SEVERAL, span=blocks[-1][:2], detail=detail)
    if not blocks or (unclosed and strictness in FINAL):
        detail = "a block of code never closes" if unclosed else "no fenced block of code"
        return Extraction(text=None, status=Status.NO_ANSWER, detail=detail)
    start, end, after = blocks[0 if strictness is Strictness.FIRST else -1]
    if strictness in (Strictness.EXACT, Strictness.TRIMMED) and reply[after:].strip():
        return Extraction(text=None, status=Status.OUT_OF_PLACE, span=(start, end), detail="text follows the block")
    if end - start > MAX_SOURCE:
        detail = f"code of over {MAX_SOURCE} characters"
        return Extraction(text=None, status=Status.MALFORMED, span=(start, end), detail=detail)
    if not reply[start:end].strip():
        return Extraction(text=None, status=Status.NO_ANSWER, span=(start, end), detail="the block is empty")
    return Extraction(text=reply[start:end], span=(start, end))


def _blocks(reply: str, begin: int) -> tuple[list[tuple[int, int, int]], bool]:
    """For every block: start and end of its code, and start of the text that follows. Also whether one never closes."""
    blocks: list[tuple[int, int, int]] = []
    inside: int | None = None
    counts, width, quoted = False, FENCE, in_string("", 0)
    start0 = begin
    while start0 < len(reply):
        stop = reply.find("\n", start0)
        stop = len(reply) if stop < 0 else stop
        # Only the start of a line is read, up to the length of a fence.
        line = reply[start0 : min(stop, start0 + 64)].translate(VISIBLE).strip()
        info = line.lstrip("`")
        marks = len(line) - len(info)
        if marks >= FENCE and "`" not in info:
            if inside is None:
                inside, width = min(stop + 1, len(reply)), marks
                counts, quoted = language(info) in PYTHON, in_string(reply, inside)
            elif marks >= width and not info and stop - start0 < 64 and not (counts and quoted(start0)):
                if counts:
                    end = start0 - 1 - reply.startswith("\r\n", max(start0 - 2, 0))
                    blocks.append((inside, max(inside, end), stop))  # Without its last line break.
                inside = None
        start0 = stop + 1
    return blocks, inside is not None and counts and (not blocks or bool(reply[inside:].strip()))


def language(info: str) -> str:
    """The language in the text after an opening fence, in lower case."""
    match = LANGUAGE.match(info.strip())
    return match[1].lower() if match else ""


def in_string(source: str, begin: int) -> Callable[[int], bool]:
    """A function that tells whether a line is in a string of three quotes that ends. It takes the lines in order."""
    position = begin

    def inside(start: int) -> bool:
        nonlocal position
        while position < start:
            token = TOKEN.search(source, position, start)
            position = start if token is None else token.end()
            if token is not None and token[1] and token["closes"] is None:
                end = source.find(token[1], start)
                position = start if end < 0 else end + len(token[1])
        return position > start

    return inside
