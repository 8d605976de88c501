"""A terminal's screen: what a program writes to it becomes rows of text.

Total: any sequence of bytes leaves a screen, in bounded memory; what it does not know it skips. It knows what the
programs of a Unix system use with TERM=xterm-256color, colours apart.
Source: ECMA-48; the xterm control sequences (Dickey, Moy, Gildea).
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import deque
from collections.abc import Callable

__all__ = ["Screen"]

GROUND, ESCAPE, CHARSET, CSI, STRING, STRING_ESCAPE = range(6)
LONGEST = 64
"""Characters of a control sequence; a longer one is skipped."""
LARGEST = 9999
"""Largest number in a control sequence."""
MARKS = 4
"""Combining characters that a cell keeps."""
ANSWERS = 256
"""Bytes of answers to a program that are kept until they are fetched."""
RUN = re.compile("[ -~]+")
LINES = str.maketrans("`abcdefghijklmnopqrstuvwxyz{|}~", "◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·")
"""The drawing characters of the DEC special graphics set."""

Row = list[str]
"""A cell per column; the right half of a wide character is an empty text."""


class Screen:
    """Rows of cells, a cursor, and what scrolled off the top.

    Args: scrollback: rows that are kept after they left the screen.
    """

    def __init__(self, rows: int = 24, columns: int = 80, scrollback: int = 1000) -> None:
        self.rows, self.columns = max(1, rows), max(2, columns)
        self.history: deque[str] = deque(maxlen=scrollback)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self.answers = b""
        """What the terminal says back to the program, such as where the cursor is."""
        self._reset()

    def _reset(self) -> None:
        self._cells = self._blank()
        self._other: list[Row] | None = None
        """The main screen, while a program uses the alternate one."""
        self.row = self.column = 0
        self._saved = (0, 0, False)
        self._top, self._bottom = 0, self.rows - 1
        self._wrapping = False
        """A character stands in the last column, and the next begins a row."""
        self._autowrap, self._insert, self._origin, self._newline = True, False, False, False
        self.application_keys = False
        """Whether the cursor keys are to be sent in their other form."""
        self._drawing, self._sets, self._set = False, [False, False], 0
        self._tabs = set(range(0, self.columns, 8))
        self._state, self._sequence, self._last = GROUND, "", " "
        self._designates = 0

    def _blank(self) -> list[Row]:
        return [[" "] * self.columns for _ in range(self.rows)]

    def text(self) -> str:
        """The screen as lines, without blanks at their ends and without empty lines at its end."""
        return "\n".join("".join(row).rstrip() for row in self._cells).rstrip("\n")

    def resize(self, rows: int, columns: int) -> None:
        """A screen of another size, with what still has a place on it."""
        rows, columns = max(1, rows), max(2, columns)
        for cells in filter(None, (self._cells, self._other)):
            for row in cells:
                row[columns:] = []
                row.extend(" " * (columns - len(row)))
                self._mend(row)
            cells[rows:] = []
            cells.extend([" "] * columns for _ in range(rows - len(cells)))
        self.rows, self.columns = rows, columns
        self._top, self._bottom, self._wrapping = 0, rows - 1, False
        self._tabs = set(range(0, columns, 8))
        self.row, self.column = min(self.row, rows - 1), min(self.column, columns - 1)

    def feed(self, data: bytes) -> None:
        """What the program wrote next."""
        text = self._decode(data)
        place = 0
        while place < len(text):
            if self._state == GROUND and (run := RUN.match(text, place)):
                for sign in run[0]:
                    self._put(sign)
                place = run.end()
                continue
            self._take(text[place])
            place += 1

    def _take(self, sign: str) -> None:
        """One character, in whatever state the last left."""
        if self._state in (STRING, STRING_ESCAPE):
            if sign == "\a" or (self._state == STRING_ESCAPE and sign == "\\") or sign in "\x18\x1a":
                self._state = GROUND
            else:
                self._state = STRING_ESCAPE if sign == "\x1b" else STRING
        elif sign == "\x1b":
            self._state, self._sequence = ESCAPE, ""
        elif sign in "\x18\x1a":
            self._state = GROUND
        elif sign < " " or sign == "\x7f":
            self._control(sign)
        elif self._state == GROUND:
            if not "\x80" <= sign <= "\x9f":
                self._put(sign)
        elif self._state == CHARSET:
            self._state = GROUND
            if self._designates < 2:
                self._sets[self._designates] = sign == "0"
                self._drawing = self._sets[self._set]
        elif self._state == ESCAPE:
            self._escape(sign)
        elif "@" <= sign <= "~":
            self._state = GROUND
            self._csi(self._sequence, sign)
        elif " " <= sign <= "?":
            self._sequence += sign if len(self._sequence) <= LONGEST else ""
        else:
            self._state = GROUND

    def _control(self, sign: str) -> None:
        if sign == "\r":
            self._go(column=0)
        elif sign in "\n\v\f":
            self._feed_line()
            if self._newline:
                self.column = 0
        elif sign == "\b":
            self._go(column=self.column - 1)
        elif sign == "\t":
            self._go(column=min((stop for stop in self._tabs if stop > self.column), default=self.columns - 1))
        elif sign in "\x0e\x0f":
            self._set = int(sign == "\x0e")
            self._drawing = self._sets[self._set]

    def _escape(self, sign: str) -> None:
        self._state = GROUND
        if sign == "[":
            self._state = CSI
        elif sign in "]PX^_":
            self._state = STRING
        elif sign in "()*+-./ #%":
            self._state, self._designates = CHARSET, "()".find(sign) if sign in "()" else 9
        elif sign == "7":
            self._saved = self.row, self.column, self._origin
        elif sign == "8":
            self.row, self.column, self._origin = self._saved
            self._go(min(self.row, self.rows - 1), self.column)
        elif sign == "D":
            self._feed_line()
        elif sign == "E":
            self._feed_line()
            self.column = 0
        elif sign == "M":
            self._feed_back()
        elif sign == "H":
            self._tabs.add(self.column)
        elif sign == "c":
            self._reset()

    def _csi(self, sequence: str, final: str) -> None:
        private = sequence[:1] in ("?", ">", "<", "=") and sequence[0]
        body = sequence[1:] if private else sequence
        if len(sequence) > LONGEST or (body and body[-1] in " !\"#$%&'()*+,-./"):
            return
        numbers = [min(int(part), LARGEST) if part.isdecimal() else 0 for part in re.split("[;:]", body)]
        if private == "?":
            if final in "hl":
                for number in numbers:
                    self._mode(number, final == "h")
                return
            if final not in "JK":
                return
        elif private:
            return
        if action := ACTIONS.get(final):
            action(self, numbers)

    def _mode(self, number: int, on: bool) -> None:
        if number == 1:
            self.application_keys = on
        elif number == 6:
            self._origin = on
            self._move(0, 0)
        elif number == 7:
            self._autowrap = on
        elif number in (47, 1047, 1049):
            self._alternate(on, saves=number == 1049)

    def _alternate(self, on: bool, saves: bool) -> None:
        """Enter or leave the screen that full-screen programs use."""
        if on and self._other is None:
            if saves:
                self._saved = self.row, self.column, self._origin
            self._other, self._cells = self._cells, self._blank()
        elif not on and self._other is not None:
            self._cells, self._other = self._other, None
            if saves:
                self.row, self.column, self._origin = self._saved
        self._top, self._bottom = 0, self.rows - 1
        self._go(min(self.row, self.rows - 1), min(self.column, self.columns - 1))

    def _put(self, sign: str) -> None:
        """Write one character at the cursor."""
        if sign > "~":
            category = unicodedata.category(sign)
            if category in ("Mn", "Me", "Cf", "Cc", "Cs", "Zl", "Zp"):
                self._mark(sign if category in ("Mn", "Me") else "")
                return
            width = 1 + wide(sign)
        else:
            width = 1
            if self._drawing:
                sign = sign.translate(LINES)
        if self._wrapping and self._autowrap:
            self._feed_line()
            self.column = 0
        if width == 2 and self.column == self.columns - 1:
            if self._autowrap:
                self._feed_line()
                self.column = 0
            else:
                self.column -= 1
        self._last = sign
        row, end = self._cells[self.row], self.column + width
        if self._insert:
            row[self.column : self.column] = [" "] * width
            del row[self.columns :]
            self._mend(row)
        self._cut(row, self.column, end)
        row[self.column : end] = [sign, ""][:width]
        self.column += width
        self._wrapping = self.column >= self.columns
        self.column = min(self.column, self.columns - 1)

    def _mark(self, sign: str) -> None:
        """Put a combining character on the one before the cursor."""
        row, place = self._cells[self.row], self.column if self._wrapping else self.column - 1
        while place > 0 and row[place] == "":
            place -= 1
        if place >= 0 and row[place] and len(row[place]) <= MARKS:
            row[place] += sign

    def _cut(self, row: Row, start: int, end: int) -> None:
        """Blank what is left of wide characters that reach over either end of a stretch to be written anew."""
        if row[start] == "":
            row[start - 1] = " "
        if end < len(row) and row[end] == "":
            row[end] = " "

    def _mend(self, row: Row) -> None:
        """Blank the halves of wide characters that lost the other half."""
        for place, cell in enumerate(row):
            if (cell == "" and not (place and wide(row[place - 1]))) or (
                cell > "~" and wide(cell) and row[place + 1 : place + 2] != [""]
            ):
                row[place] = " "

    def _go(self, row: int | None = None, column: int | None = None) -> None:
        """Put the cursor, as near as there is a place."""
        self._wrapping = False
        if row is not None:
            self.row = max(0, min(row, self.rows - 1))
        if column is not None:
            self.column = max(0, min(column, self.columns - 1))

    def _move(self, row: int, column: int) -> None:
        """Put the cursor in the coordinates of the program, which may begin at the top of its region."""
        if self._origin:
            self._go(min(self._top + row, self._bottom), column)
        else:
            self._go(row, column)

    def _feed_line(self) -> None:
        self._wrapping = False
        if self.row == self._bottom:
            self._scroll(1)
        else:
            self._go(self.row + 1)

    def _feed_back(self) -> None:
        self._wrapping = False
        if self.row == self._top:
            self._scroll(-1)
        else:
            self._go(self.row - 1)

    def _scroll(self, count: int, top: int | None = None) -> None:
        """Move the rows from `top` to the bottom of the region up, or down for a count below 0."""
        first, last = self._top if top is None else top, self._bottom
        for _ in range(min(abs(count), last - first + 1)):
            row = self._cells.pop(first if count > 0 else last)
            if count > 0 and first == 0 and top is None and self._other is None:
                self.history.append("".join(row).rstrip())
            self._cells.insert(last if count > 0 else first, [" "] * self.columns)

    def _erase(self, row: int, start: int, end: int) -> None:
        cells = self._cells[row]
        if start < end:
            self._cut(cells, start, end)
            cells[start:end] = [" "] * (end - start)

    def _erase_display(self, numbers: list[int]) -> None:
        self._wrapping = False
        if numbers[0] == 3:
            self.history.clear()
            return
        first, last = {0: (self.row + 1, self.rows), 1: (0, self.row), 2: (0, self.rows)}.get(numbers[0], (0, 0))
        for row in range(first, last):
            self._erase(row, 0, self.columns)
        if numbers[0] in (0, 1):
            self._erase_line(numbers)

    def _erase_line(self, numbers: list[int]) -> None:
        self._wrapping = False
        spans = {0: (self.column, self.columns), 1: (0, self.column + 1), 2: (0, self.columns)}
        if numbers[0] in spans:
            self._erase(self.row, *spans[numbers[0]])

    def _shift(self, numbers: list[int], inserting: bool) -> None:
        """Insert or delete cells at the cursor."""
        row, count = self._cells[self.row], min(max(1, numbers[0]), self.columns - self.column)
        blanks = [" "] * count
        if inserting:
            row[self.column : self.column] = blanks
        else:
            del row[self.column : self.column + count]
            row += blanks
        del row[self.columns :]
        self._wrapping = False
        self._mend(row)

    def _lines(self, numbers: list[int], sign: int) -> None:
        """Insert or delete rows at the cursor."""
        if self._top <= self.row <= self._bottom:
            self._scroll(sign * max(1, numbers[0]), top=self.row)
            self._go(column=0)

    def _region(self, numbers: list[int]) -> None:
        top, bottom = max(1, numbers[0]), (numbers[1] if len(numbers) > 1 else 0) or self.rows
        bottom = min(bottom, self.rows)
        if top < bottom:
            self._top, self._bottom = top - 1, bottom - 1
            self._move(0, 0)

    def _clear_tabs(self, numbers: list[int]) -> None:
        if numbers[0] == 3:
            self._tabs.clear()
        elif numbers[0] == 0:
            self._tabs.discard(self.column)

    def _back_tabs(self, numbers: list[int]) -> None:
        for _ in range(min(max(1, numbers[0]), self.columns)):
            self._go(column=max((stop for stop in self._tabs if stop < self.column), default=0))

    def _tab_forward(self, numbers: list[int]) -> None:
        for _ in range(min(max(1, numbers[0]), self.columns)):
            self._control("\t")

    def _repeat(self, numbers: list[int]) -> None:
        for _ in range(min(max(1, numbers[0]), self.rows * self.columns)):
            self._put(self._last)

    def _report(self, numbers: list[int]) -> None:
        if numbers[0] == 5:
            self._answer(b"\x1b[0n")
        elif numbers[0] == 6:
            row = self.row - self._top if self._origin else self.row
            self._answer(f"\x1b[{row + 1};{self.column + 1}R".encode())

    def _answer(self, data: bytes) -> None:
        if len(self.answers) + len(data) <= ANSWERS:
            self.answers += data

    def _plain_mode(self, numbers: list[int], on: bool) -> None:
        self._insert = on if 4 in numbers else self._insert
        self._newline = on if 20 in numbers else self._newline

    def _save(self, numbers: list[int]) -> None:
        self._saved = self.row, self.column, self._origin

    def _restore(self, numbers: list[int]) -> None:
        self._go(self._saved[0], self._saved[1])


def wide(cell: str) -> bool:
    """Whether a character takes two cells."""
    return bool(cell) and unicodedata.east_asian_width(cell[0]) in "WF"


def first(numbers: list[int]) -> int:
    """The first number, where 0 stands for 1."""
    return max(1, numbers[0])


def second(numbers: list[int]) -> int:
    return max(1, numbers[1]) if len(numbers) > 1 else 1


def up(screen: Screen, numbers: list[int], column: int | None = None) -> None:
    """Not out of the region that the cursor stands in."""
    top = screen._top if screen.row >= screen._top else 0
    screen._go(max(top, screen.row - first(numbers)), column)


def down(screen: Screen, numbers: list[int], column: int | None = None) -> None:
    bottom = screen._bottom if screen.row <= screen._bottom else screen.rows - 1
    screen._go(min(bottom, screen.row + first(numbers)), column)


def blank(screen: Screen, numbers: list[int]) -> None:
    screen._erase(screen.row, screen.column, min(screen.columns, screen.column + first(numbers)))
    screen._wrapping = False


ACTIONS: dict[str, Callable[[Screen, list[int]], None]] = {
    "@": lambda screen, n: screen._shift(n, True),
    "A": up,
    "B": down,
    "C": lambda screen, n: screen._go(column=screen.column + first(n)),
    "D": lambda screen, n: screen._go(column=screen.column - first(n)),
    "E": lambda screen, n: down(screen, n, column=0),
    "F": lambda screen, n: up(screen, n, column=0),
    "G": lambda screen, n: screen._go(column=first(n) - 1),
    "H": lambda screen, n: screen._move(first(n) - 1, second(n) - 1),
    "I": Screen._tab_forward,
    "J": Screen._erase_display,
    "K": Screen._erase_line,
    "L": lambda screen, n: screen._lines(n, -1),
    "M": lambda screen, n: screen._lines(n, 1),
    "P": lambda screen, n: screen._shift(n, False),
    "S": lambda screen, n: screen._scroll(first(n)),
    "T": lambda screen, n: screen._scroll(-first(n)),
    "X": blank,
    "Z": Screen._back_tabs,
    "`": lambda screen, n: screen._go(column=first(n) - 1),
    "a": lambda screen, n: screen._go(column=screen.column + first(n)),
    "b": Screen._repeat,
    "c": lambda screen, n: screen._answer(b"\x1b[?1;2c"),
    "d": lambda screen, n: screen._move(first(n) - 1, screen.column),
    "e": down,
    "f": lambda screen, n: screen._move(first(n) - 1, second(n) - 1),
    "g": Screen._clear_tabs,
    "h": lambda screen, n: screen._plain_mode(n, True),
    "l": lambda screen, n: screen._plain_mode(n, False),
    "n": Screen._report,
    "r": Screen._region,
    "s": Screen._save,
    "u": Screen._restore,
}
"""What the last character of a control sequence asks for; all else is skipped."""
