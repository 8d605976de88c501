"""Convert written keys to the bytes that a terminal sends."""

from __future__ import annotations

import re

__all__ = ["pressed"]

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


def pressed(text: str, *, application: bool = False) -> bytes:
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
