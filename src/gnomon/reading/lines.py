"""Text that fits a terminal: long lines are broken between fields, then between words. Nothing is cut."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise

from gnomon.terminal import printable, put

__all__ = ["figure", "fit", "say", "spark"]

DEEPEST = 44
"""Deepest column that the continuation of a line is indented to."""
FIELD = re.compile(r"\S+(?: \S+)*")


def say(text: str) -> None:
    """Print text. On a terminal its lines are fitted to the width; in a file or a pipe they stay whole."""
    text = printable(text)
    put(fit(text, shutil.get_terminal_size().columns) if sys.stdout and sys.stdout.isatty() else text)


def fit(text: str, width: int) -> str:
    """The text with no line longer than `width` columns, as far as its words are not longer themselves.

    Fields of a line are separated by two or more spaces. A line is broken between fields first, and within a field
    only where the field alone is too long. What follows is indented to the second field.
    """
    return "\n".join(part for line in text.split("\n") for part in wrap(line, width))


def wrap(line: str, width: int) -> Iterator[str]:
    """One line as the lines that it takes."""
    if len(line) <= width:
        yield line
        return
    indent = hanging(line, width)
    now, gap = "", ""
    for piece in pieces(line, width - indent):
        word = piece.rstrip()
        if now.strip() and len(now + gap + word) > width:
            yield now
            now, gap = " " * indent, ""
        now, gap = now + gap + word, " " * (len(piece) - len(word))
    yield now


def hanging(line: str, width: int) -> int:
    """The column below which a line goes on.

    That is where its last field begins, if this is not far to the right: then that field is the one that is too long.
    Else it is where the second field begins; else three columns further in than the line itself.
    """
    starts = [field.start() for field in FIELD.finditer(line)]
    if not starts:
        return 0
    prose = starts[-1] <= DEEPEST
    column = starts[-1] if prose else starts[1] if len(starts) > 1 else 0
    return column if 0 < column <= min(DEEPEST, width * 5 // 9) else len(line) - len(line.lstrip()) + 3


def pieces(line: str, room: int) -> Iterator[str]:
    """The fields of a line, each with the spaces around it; the words of a field that is longer than `room`."""
    for field in re.findall(r" *\S+(?: \S+)* *", line):
        if len(field.strip()) <= room:
            yield field
        else:
            yield from re.findall(r" *\S+ *", field)


BARS = "▁▂▃▄▅▆▇█"


def spark(values: Sequence[float], width: int = 24) -> str:
    """A line of bars from the least to the largest value, averaged down to a width."""
    if not values:
        return ""
    cells = min(width, len(values))
    edges = [i * len(values) // cells for i in range(cells + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    low, high = min(means), max(means)
    return "".join(BARS[round((v - low) / (high - low) * 7)] if high > low else BARS[0] for v in means)


def figure(value: float | None, form: str = "") -> str:
    """A number, or `-` where an imported run has none."""
    return "-" if value is None else format(value, form)
