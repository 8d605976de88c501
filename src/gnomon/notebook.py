"""A table that a notebook shows as HTML and the `rich` library in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from gnomon.terminal import one_line, printable

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Card", "excerpt"]

LONGEST = 400
"""Characters of a text in a table."""
LEFT = 'style="text-align: left; vertical-align: top; white-space: pre-wrap"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Rows under a title. What a model wrote is text in it, and never markup."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]

    def __str__(self) -> str:
        width = max((len(str(row[0])) for row in self.rows), default=0)
        lines = (f"{row[0]!s:<{width}}  {'  '.join(map(str, row[1:]))}" for row in self.rows)
        return "\n".join(one_line(line) for line in (self.title, *lines))

    def html(self) -> str:
        head = "".join(f"<th {LEFT}>{mark(name)}</th>" for name in self.columns)
        rows = "".join("<tr>" + "".join(f"<td {LEFT}>{mark(cell)}</td>" for cell in row) + "</tr>" for row in self.rows)
        return f"<table><caption {LEFT}>{mark(self.title)}</caption><tr>{head}</tr>{rows}</table>"

    def rich(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(printable(self.title)), title_justify="left")
        for name in self.columns:
            table.add_column(Text(name))
        for row in self.rows:
            table.add_row(*(Text(printable(str(cell))) for cell in row))
        return table


def mark(value: object) -> str:
    return escape(printable(str(value)))


def excerpt(text: str) -> str:
    """The text, or its beginning and end around `…` if it is long."""
    half = LONGEST // 2
    return text if len(text) <= LONGEST else f"{text[:half]} … {text[-half:]}"
