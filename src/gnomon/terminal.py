"""Make untrusted text safe to print: it cannot move the cursor, change colours or reverse the order of letters.

A completion, an id, a name or a message of another program can contain escape sequences (ESC, C1), overrides of the
writing direction, or lone surrogates. Each such character is printed as its Python escape.
"""

from __future__ import annotations

import sys
from typing import Any, TextIO

__all__ = ["one_line", "printable", "put"]


def printable(text: str) -> str:
    """The text with every invisible character escaped, except spaces and line ends."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c == "\n" or c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in text)


def one_line(value: object) -> str:
    """A value as one line: line ends are escaped too, so that a field cannot look like another row."""
    return printable(str(value)).replace("\n", "\\n")


def put(*values: Any, end: str = "\n", file: TextIO | None = None, flush: bool = False) -> None:
    """`print`, of printable text."""
    print(*(printable(str(value)) for value in values), end=end, file=sys.stdout if file is None else file, flush=flush)
