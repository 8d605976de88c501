"""A terminal: keys as input, the screen as output. One program in the episode's sandbox, with a pseudo-terminal."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gnomon.sandbox import Limits, Session
from gnomon.tools.base import Ended, EnvTool, Overtime, text_argument
from gnomon.tools.life import busy, cpu_seconds
from gnomon.tools.screen import Screen

__all__ = ["Terminal", "TerminalTool", "key_bytes"]

KEYS = "text, with keys such as <Enter>, <Esc>, <Tab>, <Up>, <Ctrl-C>; no text waits and looks again"
POLL = 0.02
"""Seconds between two checks of the processes."""
SETTLED = 0.04
"""Seconds of silence after which the next line is typed."""
ENTER = re.compile(r"(?<=<Enter>)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class TerminalTool(EnvTool):
    """A program with a terminal in the episode's sandbox, without network and without the host's files.

    A call returns the screen after `quiet` seconds without output during which no process of the sandbox was busy.
    """

    name: str = "terminal"
    description: str = "Presses keys at a terminal and tells what is on its screen then."
    parameters: Mapping[str, Any] = field(default_factory=lambda: text_argument("keys", KEYS))
    program: tuple[str, ...] = ("bash", "--norc", "--noprofile")
    rows: int = 24
    columns: int = 80
    quiet: float = 0.15
    """Seconds."""
    seconds: float = 5.0
    """CPU seconds for one call."""
    wall: float = 10.0
    """Wall-clock seconds for one call."""
    memory: int = 2**29
    """Address space of a process, in bytes."""
    environment: tuple[tuple[str, str], ...] = (("PS1", "$ "),)
    """Variables in addition to those of every sandbox."""

    @property
    def isolation(self) -> str:
        return "session"

    def open(self) -> Terminal:
        return Terminal(self)


class Terminal:
    """The terminal of one episode. Its program starts at the first call, and again after it ended."""

    def __init__(self, tool: TerminalTool) -> None:
        self._tool = tool
        self._session: Session | None = None
        self.screen = Screen(tool.rows, tool.columns)

    def call(self, arguments: Mapping[str, Any]) -> str:
        """The screen and the position of the cursor."""
        tool, fresh = self._tool, self._session is None
        if self._session is None:
            self._start()
        session = self._session
        assert session is not None
        due, most = time.monotonic() + tool.wall, cpu_seconds(session.pid) + tool.seconds
        # Line by line, because early input would be echoed at an arbitrary position of the cursor.
        lines = [piece for line in arguments["keys"].splitlines(keepends=True) for piece in ENTER.split(line)]
        for number, line in enumerate(lines):
            if number or fresh:
                self._watch(session, SETTLED, due, most)
            session.send(key_bytes(line, application=self.screen.application_keys), tool.wall)
        self._watch(session, tool.quiet, due, most)
        return f"{self.screen.text()}\n[row {self.screen.row + 1}, column {self.screen.column + 1}]".lstrip("\n")

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None

    def _start(self) -> None:
        tool = self._tool
        # Calls have their own deadlines; these limits end abandoned processes.
        limits = Limits(
            cpu_seconds=3600, wall_seconds=3600, memory_bytes=tool.memory, processes=32, file_bytes=2**24,
            output_bytes=2**16,
        )  # fmt: skip
        self.screen = Screen(tool.rows, tool.columns)
        self._session = Session(
            tool.program, limits, pty=True, size=(tool.rows, tool.columns), environment=dict(tool.environment),
            unsafe=True,
        )  # fmt: skip

    def _watch(self, session: Session, quiet: float, due: float, most: float) -> None:
        """Update the screen until nothing happened for `quiet` seconds.

        Args: due: wall-clock deadline; most: limit of the session's CPU time.
        Raises: Overtime if it still changes at the deadline; Ended, with the last screen, if the program ended.
        """
        silent = time.monotonic()
        while True:
            alive = session.alive
            output = session.receive(POLL)
            now = time.monotonic()
            if output:
                self.screen.feed(output)
                answers, self.screen.answers = self.screen.answers, b""
                session.send(answers, timeout=0.0)
            elif not alive:
                self.close()
                raise Ended(self.screen.text())
            if output or busy(session.pid):
                silent = now
            elif now - silent >= quiet:
                return
            if now >= due or cpu_seconds(session.pid) >= most:
                raise Overtime(self.screen.text())


NAMES = {
    "enter": "\r",
    "return": "\r",
    "tab": "\t",
    "esc": "\x1b",
    "escape": "\x1b",
    "space": " ",
    "backspace": "\x7f",
    "delete": "\x1b[3~",
    "insert": "\x1b[2~",
    "pageup": "\x1b[5~",
    "pagedown": "\x1b[6~",
    "lt": "<",
}
ARROWS = {"up": "A", "down": "B", "right": "C", "left": "D", "home": "H", "end": "F"}
FUNCTION = {f"f{n + 1}": key for n, key in enumerate(("OP", "OQ", "OR", "OS", "[15~", "[17~", "[18~", "[19~"))}
NAMED = re.compile(r"<([A-Za-z0-9]{1,9}|[Cc](?:trl)?-[A-Za-z@\[\]\\^_])>")


def key_bytes(text: str, *, application: bool = False) -> bytes:
    """The bytes of a text with keys such as <Enter>, <Esc>, <Up>, <C-c> or <Ctrl-D>; a line break is Enter.

    Every text is accepted. Text that is not a key name is typed literally; `<lt>` is a `<`.

    Args: application: whether the program has selected application cursor keys.
    """

    def bytes_of(match: re.Match[str]) -> str:
        name = match[1].lower()
        if "-" in name:
            return chr(ord(name[-1].upper()) & 0x1F)
        if name in ARROWS:
            return f"\x1b{'O' if application else '['}{ARROWS[name]}"
        return f"\x1b{FUNCTION[name]}" if name in FUNCTION else NAMES.get(name, match[0])

    return NAMED.sub(bytes_of, text).replace("\n", "\r").encode(errors="replace")
