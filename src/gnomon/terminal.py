"""Make untrusted text safe to print: it cannot move the cursor, change colours or reverse the order of letters.

A completion, an id, a name or a message of another program can contain escape sequences (ESC, C1), overrides of the
writing direction, or lone surrogates. Each such character is printed as its Python escape.
"""

from __future__ import annotations

import sys
from typing import IO, Any, TextIO

__all__ = ["LOST", "encodable", "one_line", "printable", "put"]

LOST: list[OSError] = []
"""Errors of writing the output of this process: the pipe has no reader, or the disk is full."""


def printable(text: str) -> str:
    """The text with every invisible character escaped, except spaces and line ends."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c == "\n" or c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in text)


def one_line(value: object) -> str:
    """A value as one line: line ends are escaped too, so that a field cannot look like another row."""
    return printable(str(value)).replace("\n", "\\n")


def put(*values: Any, end: str = "\n", file: TextIO | None = None, flush: bool = False) -> None:
    """`print`, of printable text. A character that the encoding lacks is `?`. A stream that fails raises nothing."""
    stream = sys.stdout if file is None else file
    if stream is None:  # It was closed when this process began.
        return
    try:
        print(*(encodable(printable(str(value)), stream) for value in values), end=end, file=stream, flush=flush)
    except OSError as error:
        LOST.append(error)


def encodable(text: str, stream: IO[str]) -> str:
    """The text with `?` for every character that the stream's encoding lacks."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)
