"""A session that first checks whether the host can confine it, and one command on a folder in such a sandbox."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gnomon.sandbox.job import Limits
from gnomon.sandbox.probe import capabilities
from gnomon.sandbox.session import RawSession

__all__ = ["Ran", "Session", "run_command"]

LIMITS = Limits(cpu_seconds=20.0, wall_seconds=60.0, memory_bytes=2**31, file_bytes=2**26, output_bytes=2**16)
POLL = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a command ended."""

    status: int | None
    """Exit status, negative for a signal; None if a limit ended it."""
    output: str
    """Standard output and standard error, the first `output_bytes`."""
    files: Mapping[str, bytes]
    """Its working folder afterwards, regular files only."""


def run_command(
    argv: Sequence[str],
    files: Mapping[str, bytes],
    *,
    limits: Limits = LIMITS,
    stdin: bytes = b"",
    readable: tuple[str, ...] = (),
) -> Ran:
    """Run a command on a folder without network and without the host's files, until all its processes have ended.

    Args: files: the folder, by relative path; readable: paths of the host that it may read.
    Raises: ResourceError, E520 to E522, if the host has no sandbox.
    """
    output, due = bytearray(), time.monotonic() + limits.wall_seconds
    with Session(argv, limits, files=files, keep_bytes=limits.file_bytes, readable=readable) as session:
        session.send(stdin, timeout=1.0)
        session.close_input()
        while session.alive and time.monotonic() < due:
            output += session.receive(POLL)
        output += session.receive(0.0)
        text = bytes(output[: limits.output_bytes]).decode(errors="replace")
        return Ran(status=session.status, output=text, files=session.folder)


class Session(RawSession):
    """A `RawSession` on a host that can confine it. Args: unsafe: skip the check of the host.

    Raises: ResourceError, E520 to E522, if the host cannot confine.
    """

    def __init__(
        self, argv: Sequence[str], limits: Limits | None = None, *, unsafe: bool = False, **options: Any
    ) -> None:
        if not unsafe:
            capabilities(("session",))
        super().__init__(argv, limits, **options)
