"""Parse the reports of confined code. Only their form is checked; their content is not trusted."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import get_args

from gnomon.sandbox.job import Err, Exceeded, Ok, Resource, Value
from gnomon.sandbox.run import HEAD, NONCE, decode

__all__ = ["Reports", "ending"]

RESOURCES = get_args(Resource)


@dataclass(slots=True)
class Reports:
    """The reports of one run, parsed as they arrive."""

    nonce: bytes
    cap: int
    """Largest size of all reports together, in bytes, without their headers."""
    ready: bool = False
    """The process is ready. All later reports may come from untrusted code."""
    values: list[Value] = field(default_factory=list)
    last: Err | Exceeded | None = None
    """The reported reason why no more values follow: an error or a resource."""
    forged: str = ""
    """The fault in the form of a report. Later data is ignored."""
    full: bool = False
    """The reports exceeded `cap`."""
    size: int = 0
    received: bytearray = field(default_factory=bytearray)

    def feed(self, piece: bytes) -> None:
        """Parse more data. Parsing stops at the first malformed report."""
        received = self.received
        received += piece
        while len(received) >= HEAD + NONCE and not (self.forged or self.full or self.last):
            size = int.from_bytes(received[:HEAD], "little")
            if bytes(received[HEAD : HEAD + NONCE]) != self.nonce:
                self.forged = "a report without the nonce of the job"
            elif self.size + size > self.cap:
                self.full = True
            elif len(received) < HEAD + NONCE + size:
                return
            else:
                self.size += size
                self.read(bytes(received[HEAD + NONCE : HEAD + NONCE + size]))
                del received[: HEAD + NONCE + size]
        if self.forged or self.full or self.last:
            received.clear()

    def read(self, line: bytes) -> None:
        """Parse one report."""
        try:
            parsed = decode(line)
        except (ValueError, RecursionError):
            self.forged = "a report that is not JSON"
            return
        match parsed:
            case ["ready"] if not self.ready:
                self.ready = True
            case ["ok", value]:
                self.values.append(Ok(value))
            case ["err", str(kind), str(message)]:
                self.values.append(error(kind, message))
            case ["raised", str(kind), str(message)]:
                self.last = error(kind, message)
            case ["exceeded", resource] if resource in RESOURCES:
                self.last = Exceeded(resource=resource)
            case _:
                self.forged = "a report of an unknown kind"


def error(kind: str, message: str) -> Err:
    """An error as confined code reports it. Its type has a name in one line, and both can be printed."""
    return Err(" ".join(printable(kind).split()) or "Exception", printable(message))


def printable(text: str) -> str:
    """The text with U+FFFD for control characters and lone surrogates."""
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "\ufffd" for sign in text)


def ending(status: int) -> Err | None:
    """The error in a process's wait status; None for exit status 0."""
    if status & 0x7F:
        number = status & 0x7F
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = str(number)
        return Err("Signal", f"ended by {name}")
    return Err("Exit", f"ended with status {status >> 8}") if status else None


def text(data: bytes | bytearray) -> str:
    """Output bytes as text, with U+FFFD for invalid UTF-8."""
    return bytes(data).decode("utf-8", errors="replace")
