"""Rows from text with fields between commas, semicolons or tabs, below a line with the names of the columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping

__all__ = ["csv_rows"]

SEPARATORS = ",;\t"
LONGEST = 2**31 - 1
"""Largest field, in characters. The default of `csv` is 131,072."""


def csv_rows(text: str, separator: str = "") -> Iterator[Mapping[str, str]]:
    """The rows, with every value as text.

    Args: separator: between fields; if empty, the one of `SEPARATORS` that occurs most often in the first line.
    Raises: ValueError, with the line, for invalid quotes, a row of another length, or invalid names of columns.
    """
    first = text.partition("\n")[0]
    csv.field_size_limit(LONGEST)
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=separator or max(SEPARATORS, key=first.count), strict=True
    )
    names: list[str] = []
    try:
        for fields in reader:
            if not fields:
                continue
            if not names:
                names = [name.strip() for name in fields]
                if "" in names or len(set(names)) < len(names):
                    raise ValueError(
                        f"line {reader.line_num}: the names of the columns are {', '.join(map(repr, names))}"
                    )
                continue
            if len(fields) != len(names):
                raise ValueError(
                    f"line {reader.line_num}: it has {len(fields)} fields, and there are {len(names)} columns"
                )
            yield dict(zip(names, fields, strict=True))
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from error
