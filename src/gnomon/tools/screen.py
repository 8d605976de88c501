"""A terminal's screen: converts the output of a program to rows of text.

Every sequence of bytes is accepted, in bounded memory; unknown control sequences are skipped. The screen supports the
sequences that Unix programs use with TERM=xterm-256color, except colours.
Source: ECMA-48; the xterm control sequences (Dickey, Moy, Gildea).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

from gnomon.tools.grid import Grid

__all__ = ["Screen"]

GROUND, ESCAPE, CHARSET, CSI, STRING, STRING_ESCAPE = range(6)
LONGEST = 64
"""Characters of a control sequence; a longer one is skipped."""
LARGEST = 9999
"""Largest number in a control sequence."""
ANSWERS = 256
"""Largest size of pending answers to a program, in bytes."""
RUN = re.compile("[ -~]+")
LINES = str.maketrans("`abcdefghijklmnopqrstuvwxyz{|}~", "◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·")
"""The drawing characters of the DEC special graphics set."""


class Screen(Grid):
    """A grid to which a program's output is written.

    Args: scrollback: number of rows that are kept after they left the screen.
    """

    def __init__(self, rows: int = 24, columns: int = 80, scrollback: int = 1000) -> None:
        super().__init__(rows, columns, scrollback)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self.answers = b""
        """The terminal's answers to the program, such as the position of the cursor."""
        self._reset()

    def _reset(self) -> None:
        self.clear()
        self._saved = (0, 0, False)
        self._origin, self._newline = False, False
        self.application_keys = False
        """Whether application cursor keys are selected."""
        self._drawing, self._sets, self._set, self._designates = False, [False, False], 0, 0
        self._tabs = set(range(0, self.columns, 8))
        self._state, self._sequence = GROUND, ""

    def resize(self, rows: int, columns: int) -> None:
        super().resize(rows, columns)
        self._tabs = set(range(0, self.columns, 8))

    def feed(self, data: bytes) -> None:
        """Process output of the program."""
        text = self._decode(data)
        position = 0
        while position < len(text):
            if self._state == GROUND and (run := RUN.match(text, position)):
                for sign in run[0]:
                    self._type(sign)
                position = run.end()
                continue
            self._take(text[position])
            position += 1

    def _type(self, sign: str) -> None:
        """Write a character in the current character set."""
        self.put(sign.translate(LINES) if self._drawing else sign)

    def _take(self, sign: str) -> None:
        """Process one character in the current parser state."""
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
                self._type(sign)
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
            self.go(column=0)
        elif sign in "\n\v\f":
            self.feed_line()
            if self._newline:
                self.column = 0
        elif sign == "\b":
            self.go(column=self.column - 1)
        elif sign == "\t":
            self.go(column=min((stop for stop in self._tabs if stop > self.column), default=self.columns - 1))
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
            self.go(min(self.row, self.rows - 1), self.column)
        elif sign == "D":
            self.feed_line()
        elif sign == "E":
            self.feed_line()
            self.column = 0
        elif sign == "M":
            self.feed_back()
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
            self.autowrap = on
        elif number in (47, 1047, 1049):
            self._alternate(on, saves=number == 1049)

    def _alternate(self, on: bool, saves: bool) -> None:
        """Enter or leave the alternate screen of full-screen programs."""
        if on and self.other is None:
            if saves:
                self._saved = self.row, self.column, self._origin
            self.other, self.cells = self.cells, self.blank_cells()
        elif not on and self.other is not None:
            self.cells, self.other = self.other, None
            if saves:
                self.row, self.column, self._origin = self._saved
        self.top, self.bottom = 0, self.rows - 1
        self.go(min(self.row, self.rows - 1), min(self.column, self.columns - 1))

    def _move(self, row: int, column: int) -> None:
        """Move the cursor, in the program's coordinates, which may start at the top of its region."""
        if self._origin:
            self.go(min(self.top + row, self.bottom), column)
        else:
            self.go(row, column)

    def _region(self, numbers: list[int]) -> None:
        top, bottom = max(1, numbers[0]), (numbers[1] if len(numbers) > 1 else 0) or self.rows
        bottom = min(bottom, self.rows)
        if top < bottom:
            self.top, self.bottom = top - 1, bottom - 1
            self._move(0, 0)

    def _clear_tabs(self, numbers: list[int]) -> None:
        if numbers[0] == 3:
            self._tabs.clear()
        elif numbers[0] == 0:
            self._tabs.discard(self.column)

    def _back_tabs(self, numbers: list[int]) -> None:
        for _ in range(min(max(1, numbers[0]), self.columns)):
            self.go(column=max((stop for stop in self._tabs if stop < self.column), default=0))

    def _tab_forward(self, numbers: list[int]) -> None:
        for _ in range(min(max(1, numbers[0]), self.columns)):
            self._control("\t")

    def _repeat(self, numbers: list[int]) -> None:
        for _ in range(min(max(1, numbers[0]), self.rows * self.columns)):
            self.put(self.last)

    def _report(self, numbers: list[int]) -> None:
        if numbers[0] == 5:
            self._answer(b"\x1b[0n")
        elif numbers[0] == 6:
            row = self.row - self.top if self._origin else self.row
            self._answer(f"\x1b[{row + 1};{self.column + 1}R".encode())

    def _answer(self, data: bytes) -> None:
        if len(self.answers) + len(data) <= ANSWERS:
            self.answers += data

    def _plain_mode(self, numbers: list[int], on: bool) -> None:
        self.insert = on if 4 in numbers else self.insert
        self._newline = on if 20 in numbers else self._newline

    def _save(self, numbers: list[int]) -> None:
        self._saved = self.row, self.column, self._origin

    def _restore(self, numbers: list[int]) -> None:
        self.go(self._saved[0], self._saved[1])


def first(numbers: list[int]) -> int:
    """The first number; 0 means 1."""
    return max(1, numbers[0])


def second(numbers: list[int]) -> int:
    return max(1, numbers[1]) if len(numbers) > 1 else 1


def up(screen: Screen, numbers: list[int], column: int | None = None) -> None:
    """Move the cursor up, within its region."""
    top = screen.top if screen.row >= screen.top else 0
    screen.go(max(top, screen.row - first(numbers)), column)


def down(screen: Screen, numbers: list[int], column: int | None = None) -> None:
    bottom = screen.bottom if screen.row <= screen.bottom else screen.rows - 1
    screen.go(min(bottom, screen.row + first(numbers)), column)


def blank(screen: Screen, numbers: list[int]) -> None:
    screen.erase(screen.row, screen.column, min(screen.columns, screen.column + first(numbers)))
    screen.wrapping = False


ACTIONS: dict[str, Callable[[Screen, list[int]], None]] = {
    "@": lambda screen, n: screen.shift(n, True),
    "A": up,
    "B": down,
    "C": lambda screen, n: screen.go(column=screen.column + first(n)),
    "D": lambda screen, n: screen.go(column=screen.column - first(n)),
    "E": lambda screen, n: down(screen, n, column=0),
    "F": lambda screen, n: up(screen, n, column=0),
    "G": lambda screen, n: screen.go(column=first(n) - 1),
    "H": lambda screen, n: screen._move(first(n) - 1, second(n) - 1),
    "I": Screen._tab_forward,
    "J": Screen.erase_display,
    "K": Screen.erase_line,
    "L": lambda screen, n: screen.shift_rows(n, -1),
    "M": lambda screen, n: screen.shift_rows(n, 1),
    "P": lambda screen, n: screen.shift(n, False),
    "S": lambda screen, n: screen.scroll(first(n)),
    "T": lambda screen, n: screen.scroll(-first(n)),
    "X": blank,
    "Z": Screen._back_tabs,
    "`": lambda screen, n: screen.go(column=first(n) - 1),
    "a": lambda screen, n: screen.go(column=screen.column + first(n)),
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
"""The action for the last character of a control sequence. Other characters are skipped."""
