"""Rows of cells with a cursor: the characters of a terminal and their movements.

Every row is as wide as the screen, and the cursor is always on the screen.
"""

from __future__ import annotations

import unicodedata
from collections import deque

__all__ = ["Grid", "Row", "wide"]

MARKS = 4
"""Combining characters that a cell keeps."""

Row = list[str]
"""A cell per column; the right half of a wide character is an empty text."""


class Grid:
    """Cells, a cursor, and the rows that scrolled off the top.

    Args: scrollback: number of rows that are kept after they left the screen.
    """

    def __init__(self, rows: int, columns: int, scrollback: int) -> None:
        self.rows, self.columns = max(1, rows), max(2, columns)
        self.history: deque[str] = deque(maxlen=scrollback)
        self.clear()

    def clear(self) -> None:
        """Clear the screen and reset its state. The scrollback stays."""
        self.cells = self.blank_cells()
        self.other: list[Row] | None = None
        """The main screen, while a program uses the alternate one."""
        self.row = self.column = 0
        self.top, self.bottom = 0, self.rows - 1
        """The region that scrolls."""
        self.wrapping = False
        """The last column is full, so the next character begins a new row."""
        self.autowrap, self.insert = True, False
        self.last = " "

    def text(self) -> str:
        """The screen as lines, without blanks at their ends and without empty lines at its end."""
        return "\n".join("".join(row).rstrip() for row in self.cells).rstrip("\n")

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the screen. Content that fits is kept."""
        rows, columns = max(1, rows), max(2, columns)
        for cells in filter(None, (self.cells, self.other)):
            for row in cells:
                row[columns:] = []
                row.extend(" " * (columns - len(row)))
                self.mend(row)
            cells[rows:] = []
            cells.extend([" "] * columns for _ in range(rows - len(cells)))
        self.rows, self.columns = rows, columns
        self.top, self.bottom, self.wrapping = 0, rows - 1, False
        self.row, self.column = min(self.row, rows - 1), min(self.column, columns - 1)

    def put(self, sign: str) -> None:
        """Write one character at the cursor."""
        if sign > "~":
            category = unicodedata.category(sign)
            if category in ("Mn", "Me", "Cf", "Cc", "Cs", "Zl", "Zp"):
                self.mark(sign if category in ("Mn", "Me") else "")
                return
            width = 1 + wide(sign)
        else:
            width = 1
        if self.wrapping and self.autowrap:
            self.feed_line()
            self.column = 0
        if width == 2 and self.column == self.columns - 1:
            if self.autowrap:
                self.feed_line()
                self.column = 0
            else:
                self.column -= 1
        self.last = sign
        row, end = self.cells[self.row], self.column + width
        if self.insert:
            row[self.column : self.column] = [" "] * width
            del row[self.columns :]
            self.mend(row)
        self.cut(row, self.column, end)
        row[self.column : end] = [sign, ""][:width]
        self.column += width
        self.wrapping = self.column >= self.columns
        self.column = min(self.column, self.columns - 1)

    def mark(self, sign: str) -> None:
        """Put a combining character on the one before the cursor."""
        row, column = self.cells[self.row], self.column if self.wrapping else self.column - 1
        while column > 0 and row[column] == "":
            column -= 1
        if column >= 0 and row[column] and len(row[column]) <= MARKS:
            row[column] += sign

    def cut(self, row: Row, start: int, end: int) -> None:
        """Blank wide characters that cross either end of a range that will be overwritten."""
        if row[start] == "":
            row[start - 1] = " "
        if end < len(row) and row[end] == "":
            row[end] = " "

    def mend(self, row: Row) -> None:
        """Blank the halves of wide characters that lost the other half."""
        for column, cell in enumerate(row):
            if (cell == "" and not (column and wide(row[column - 1]))) or (
                cell > "~" and wide(cell) and row[column + 1 : column + 2] != [""]
            ):
                row[column] = " "

    def go(self, row: int | None = None, column: int | None = None) -> None:
        """Move the cursor, clamped to the screen."""
        self.wrapping = False
        if row is not None:
            self.row = max(0, min(row, self.rows - 1))
        if column is not None:
            self.column = max(0, min(column, self.columns - 1))

    def feed_line(self) -> None:
        self.wrapping = False
        if self.row == self.bottom:
            self.scroll(1)
        else:
            self.go(self.row + 1)

    def feed_back(self) -> None:
        self.wrapping = False
        if self.row == self.top:
            self.scroll(-1)
        else:
            self.go(self.row - 1)

    def scroll(self, count: int, top: int | None = None) -> None:
        """Move the rows from `top` to the bottom of the region up, or down for a count below 0."""
        first, last = self.top if top is None else top, self.bottom
        for _ in range(min(abs(count), last - first + 1)):
            row = self.cells.pop(first if count > 0 else last)
            if count > 0 and first == 0 and top is None and self.other is None:
                self.history.append("".join(row).rstrip())
            self.cells.insert(last if count > 0 else first, [" "] * self.columns)

    def erase(self, row: int, start: int, end: int) -> None:
        cells = self.cells[row]
        if start < end:
            self.cut(cells, start, end)
            cells[start:end] = [" "] * (end - start)

    def erase_display(self, numbers: list[int]) -> None:
        self.wrapping = False
        if numbers[0] == 3:
            self.history.clear()
            return
        first, last = {0: (self.row + 1, self.rows), 1: (0, self.row), 2: (0, self.rows)}.get(numbers[0], (0, 0))
        for row in range(first, last):
            self.erase(row, 0, self.columns)
        if numbers[0] in (0, 1):
            self.erase_line(numbers)

    def erase_line(self, numbers: list[int]) -> None:
        self.wrapping = False
        spans = {0: (self.column, self.columns), 1: (0, self.column + 1), 2: (0, self.columns)}
        if numbers[0] in spans:
            self.erase(self.row, *spans[numbers[0]])

    def shift(self, numbers: list[int], inserting: bool) -> None:
        """Insert or delete cells at the cursor."""
        row, count = self.cells[self.row], min(max(1, numbers[0]), self.columns - self.column)
        blanks = [" "] * count
        if inserting:
            row[self.column : self.column] = blanks
        else:
            del row[self.column : self.column + count]
            row += blanks
        del row[self.columns :]
        self.wrapping = False
        self.mend(row)

    def shift_rows(self, numbers: list[int], sign: int) -> None:
        """Insert or delete rows at the cursor."""
        if self.top <= self.row <= self.bottom:
            self.scroll(sign * max(1, numbers[0]), top=self.row)
            self.go(column=0)

    def blank_cells(self) -> list[Row]:
        return [[" "] * self.columns for _ in range(self.rows)]


def wide(cell: str) -> bool:
    """Whether a character takes two cells."""
    return bool(cell) and unicodedata.east_asian_width(cell[0]) in "WF"
