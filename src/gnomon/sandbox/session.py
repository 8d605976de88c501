"""A program that runs in a sandbox for a whole episode, with byte streams as input and output.

with RawSession(("python3", "-i"), pty=True) as session:
    session.send(b"print(6 * 7)\\n")
    output = session.receive(timeout=1.0)
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import select
import socket
import struct
import subprocess
import termios
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType, TracebackType
from typing import Any, Self

from gnomon.errors import ResourceError
from gnomon.sandbox.bubble import SCRATCH, Wall, nobody, spawn, way
from gnomon.sandbox.cgroup import Group
from gnomon.sandbox.inside import HEAD
from gnomon.sandbox.job import Limits
from gnomon.sandbox.seccomp import SESSION, filter_program
from gnomon.sandbox.worker import OWN, OWN_PROCESSES, end, reach, whole_seconds

__all__ = ["RawSession"]

DEFAULT = Limits(cpu_seconds=60.0, wall_seconds=3600.0, memory_bytes=2**30, processes=64, file_bytes=2**26)
PIECE = 2**16
SENDING = 10.0
"""Seconds that the archive of a working folder may take."""


class RawSession:
    """One program in its own sandbox with a writable folder, until it ends or is closed.

    It does not check whether the host can confine; `gnomon.sandbox.Session` does.

    Args:
        argv: the program and its arguments, with paths inside the sandbox.
        limits: `cpu_seconds` per process; `wall_seconds` of the whole session, enforced inside the sandbox;
            `output_bytes` per `receive`. A program that writes faster than its output is read blocks.
        pty: run the program in a terminal, as a shell needs it. Standard output and error are then one stream.
        size: rows and columns of the terminal.
        readable: additional paths of the host, read-only at the same place.
        environment: variables in addition to those of every sandbox.
        files: content of the working folder at the start, by relative path.
        port: a port of 127.0.0.1 inside, on which `listener` accepts connections out here. No port if 0.
        kept: bytes of the working folder that `wait` returns. No file if 0.
    """

    def __init__(
        self,
        argv: Sequence[str],
        limits: Limits | None = None,
        *,
        pty: bool = False,
        size: tuple[int, int] = (24, 80),
        readable: tuple[str, ...] = (),
        environment: dict[str, str] | None = None,
        files: Mapping[str, bytes] = MappingProxyType({}),
        port: int = 0,
        keep_bytes: int = 0,
    ) -> None:
        self._files, self._port, self._kept = files, port, keep_bytes
        self.folder: dict[str, bytes] = {}
        """The working folder after the end, with `keep_bytes`."""
        self.limits, self.pty = limits or DEFAULT, pty
        self._status: int | None = None
        self._ended = self._closed = False
        self.lost = ""
        """Why the sandbox ended before it could report: `memory` for its limit, `sandbox` for any other reason."""
        limits = self.limits
        self._group = Group.open(limits.memory_bytes + limits.file_bytes + OWN, limits.processes + OWN_PROCESSES)
        self._control, theirs = socket.socketpair()
        streams = [] if pty else [os.pipe(), os.pipe()]
        wall = Wall(scratch_bytes=limits.file_bytes, readable=readable, terminal=True)
        with theirs:
            inner = (streams[0][0], streams[1][1], streams[1][1]) if streams else (subprocess.DEVNULL,) * 3
            self._process = spawn(wall, way(), self._group.doors, theirs, inner)
        for descriptor in (streams[0][0], streams[1][1]) if streams else ():
            os.close(descriptor)
        try:
            self.report, handles = reach(
                self._process, self._control, self._message(argv, environment or {}), self._group
            )
        except ResourceError:
            for descriptor in (streams[0][1], streams[1][0]) if streams else ():
                os.close(descriptor)
            raise
        self._first = handles[0]
        self.listener = socket.socket(fileno=handles.pop()) if port else None
        self._write, self._read = (handles[1], handles[1]) if pty else (streams[0][1], streams[1][0])
        for descriptor in {self._write, self._read}:
            os.set_blocking(descriptor, False)
        if pty:
            self.resize(*size)

    def _message(self, argv: Sequence[str], environment: dict[str, str]) -> dict[str, Any]:
        limits = self.limits
        return {
            "way": way(),
            "uid": nobody(),
            "imports": [],
            "paths": [],
            "readable": ["/"],
            "writable": [SCRATCH, "/dev"],
            "filter": filter_program(SESSION).hex(),
            "limits": {
                "memory": limits.memory_bytes,
                "file": limits.file_bytes,
                "processes": limits.processes + 1,
            },
            "argv": list(argv),
            "files": {name: b64encode(data).decode() for name, data in self._files.items()},
            "port": self._port,
            "kept": self._kept,
            "environment": ({"TERM": "xterm-256color"} if self.pty else {}) | environment,
            "pty": self.pty,
            "cpu": whole_seconds(limits.cpu_seconds),
            "wall": limits.wall_seconds,
        }

    @property
    def pid(self) -> int:
        """Process id, on the host, of the parent of all processes of the session."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """The program's exit status, negative for a signal; None while it runs, and if it was ended from outside."""
        self._update()
        return self._status

    @property
    def alive(self) -> bool:
        """Whether the program is running."""
        self._update()
        return not self._ended

    def _update(self) -> None:
        if self._ended:
            return
        with suppress(BlockingIOError):
            self._control.setblocking(False)
            try:
                message = self._control.recv(2**10)
            except ConnectionError:
                message = b""
            self._ended = True
            if message:
                self._finish(message)
            else:
                self.lost = "memory" if self._group.kills() else "sandbox"

    def _finish(self, message: bytes) -> None:
        """Read the program's status, and its working folder, which follows."""
        size = HEAD + int.from_bytes(message[:HEAD], "little")
        line, rest = json.loads(message[HEAD:size]), bytearray(message[size:])
        self._status = line["ended"]
        self._control.settimeout(SENDING)
        with suppress(OSError):
            while len(rest) < line.get("folder", 0) and (piece := self._control.recv(PIECE)):
                rest += piece
        if rest:
            self.folder = unpack(bytes(rest))

    @property
    def output(self) -> int:
        """The descriptor of its output."""
        return self._read

    @property
    def control(self) -> int:
        """A descriptor that becomes readable at the end of the program."""
        return self._control.fileno()

    def send(self, data: bytes, timeout: float = 10.0) -> int:
        """Write to its input. Returns: number of bytes written; fewer if it did not read in time or has ended.

        Args: timeout: seconds.
        """
        sent, due = 0, time.monotonic() + timeout
        while sent < len(data) and not self._closed:
            try:
                sent += os.write(self._write, data[sent : sent + PIECE])
            except BlockingIOError:
                if not ready(self._write, select.POLLOUT, max(0.0, due - time.monotonic())):
                    break
            except OSError:  # No process reads the pipe.
                break
        return sent

    def close_input(self) -> None:
        """Close its input."""
        if self.pty:
            self.send(b"\x04")
        elif self._write != self._read:
            os.close(self._write)
            self._write = self._read

    def receive(self, timeout: float = 1.0) -> bytes:
        """New output, as soon as there is any; empty after `timeout` seconds or at its end."""
        received, due = bytearray(), time.monotonic() + timeout
        while len(received) < self.limits.output_bytes and not self._closed:
            pause = 0.0 if received else max(0.0, due - time.monotonic())
            if not ready(self._read, select.POLLIN, pause):
                break
            try:
                piece = os.read(self._read, min(PIECE, self.limits.output_bytes - len(received)))
            except OSError:  # The other side of the terminal is closed.
                piece = b""
            if not piece:
                break
            received += piece
        return bytes(received)

    def receive_all(self, timeout: float = 10.0) -> bytes:
        """All output until its end, up to `output_bytes` and for up to `timeout` seconds."""
        received, due = bytearray(), time.monotonic() + timeout
        while (seconds := due - time.monotonic()) > 0 and len(received) < self.limits.output_bytes:
            piece = self.receive(seconds)
            if not piece:
                break
            received += piece
        return bytes(received[: self.limits.output_bytes])

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of its terminal."""
        fcntl.ioctl(self._write, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def interrupt(self) -> None:
        """Send the interrupt key to its terminal. Raises: ValueError if it has no terminal."""
        if not self.pty:
            raise ValueError("a session without a terminal has no interrupt key")
        self.send(b"\x03")

    def close(self) -> None:
        """End the program and all its descendants, and wait until they are gone."""
        if self._closed:
            return
        self._update()
        self._closed = self._ended = True
        end(self._process, self._first, self._control, self._group)
        for descriptor in {self._write, self._read}:
            os.close(descriptor)
        if self.listener is not None:
            self.listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def ready(descriptor: int, event: int, seconds: float) -> bool:
    """Whether an event, or the end, comes in time. Unlike `select.select`, it takes descriptors of any number."""
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(1000 * seconds))


def unpack(archive: bytes) -> dict[str, bytes]:
    """The files of an archive by path, as far as it is sound, without files whose names are not UTF-8."""
    import tarfile  # Imported here, because judging workers do not need it.

    files: dict[str, bytes] = {}
    with suppress(tarfile.TarError, OSError, KeyError), tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            if (file := tar.extractfile(member)) is not None and member.name.encode(
                errors="ignore"
            ).decode() == member.name:
                files[member.name] = file.read()
    return files
