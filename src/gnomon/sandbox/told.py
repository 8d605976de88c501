"""Read what confined code says about itself, believing nothing but its form."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass, field
from typing import Any, get_args

from gnomon.sandbox.job import Err, Exceeded, Ok, Resource, Value
from gnomon.sandbox.run import HEAD, NONCE

__all__ = ["Told", "ending"]

RESOURCES = get_args(Resource)


@dataclass(slots=True)
class Told:
    """The lines of one run, as they come in."""

    nonce: bytes
    cap: int
    """Bytes of all lines together, their heads not counted."""
    ready: bool = False
    """The process was made ready; all that follows may be the untrusted source's word."""
    values: list[Value] = field(default_factory=list)
    last: Err | Exceeded | None = None
    """Why there are no more values, as far as it said so: an error, or a resource."""
    forged: str = ""
    """What is wrong with the form of a line; after it nothing is read."""
    full: bool = False
    """It said more than it may."""
    size: int = 0
    heard: bytearray = field(default_factory=bytearray)

    def feed(self, piece: bytes) -> None:
        """Read on. A line that breaks the form is the end of all reading."""
        heard = self.heard
        heard += piece
        while len(heard) >= HEAD + NONCE and not (self.forged or self.full or self.last):
            size = int.from_bytes(heard[:HEAD], "little")
            if bytes(heard[HEAD : HEAD + NONCE]) != self.nonce:
                self.forged = "a line without the nonce of the job"
            elif self.size + size > self.cap:
                self.full = True
            elif len(heard) < HEAD + NONCE + size:
                return
            else:
                self.size += size
                self.read(bytes(heard[HEAD + NONCE : HEAD + NONCE + size]))
                del heard[: HEAD + NONCE + size]
        if self.forged or self.full or self.last:
            heard.clear()

    def read(self, line: bytes) -> None:
        """Take one line for what it says."""
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            self.forged = "a line that is not JSON"
            return
        match told:
            case ["ready"] if not self.ready:
                self.ready = True
            case ["ok", value]:
                self.values.append(Ok(value))
            case ["err", str(kind), str(message)]:
                self.values.append(Err(kind, message))
            case ["raised", str(kind), str(message)]:
                self.last = Err(kind, message)
            case ["exceeded", resource] if resource in RESOURCES:
                self.last = Exceeded(resource=resource)
            case _:
                self.forged = "a line that says nothing known"


def ending(status: int) -> Err | None:
    """What a process's wait status says; None for a plain end with status 0."""
    if status & 0x7F:
        number = status & 0x7F
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = str(number)
        return Err("Signal", f"ended by {name}")
    return Err("Exit", f"ended with status {status >> 8}") if status else None


def text(written: bytes | bytearray) -> str:
    """Output as text, whatever bytes it holds."""
    return bytes(written).decode("utf-8", errors="replace")


def plain(value: Any) -> str:
    """An input as JSON. Raises: TypeError, ValueError, for what is no JSON value."""
    return json.dumps(value)
