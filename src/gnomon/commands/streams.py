"""Standard streams that are closed, in a narrow encoding, unread, on a full disk, or a terminal."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper

from gnomon.terminal import LOST

__all__ = ["Finished", "counter", "lost_output", "open_streams", "status_line"]


class Finished(SystemExit):
    """The end of a command whose result is in a folder, whether or not somebody could read its output."""


def open_streams() -> None:
    """Open closed streams, so that no file gets their descriptors. A character that an encoding lacks becomes `?`."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def lost_output() -> str:
    """Why output of this process is lost; empty if none is, or if its reader left. Later output is discarded."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            LOST.append(error)
            with suppress(OSError):  # Not a file of the system.
                nothing = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nothing, stream.fileno())
                os.close(nothing)
    return next((error.strerror or str(error) for error in LOST if error.errno != errno.EPIPE), "")


def counter(*, quiet: bool) -> Callable[[int, int], None]:
    """A function that shows at a terminal how many rollouts are done; elsewhere, and if `quiet`, it shows nothing."""
    if quiet or not sys.stderr.isatty():
        return lambda done, total: None

    def show(done: int, total: int) -> None:
        sys.stderr.write(f"\r{done} of {total} rollouts" + ("\n" if done == total else ""))
        sys.stderr.flush()

    return show


@contextmanager
def status_line() -> Iterator[Callable[[str], None]]:
    """A function that shows a text at a terminal in the place of the one before, and elsewhere nothing."""
    width = 0

    def show(text: str) -> None:
        nonlocal width
        if sys.stderr.isatty():
            text = text[: shutil.get_terminal_size().columns - 1]
            sys.stderr.write(f"\r{text:<{width}}" + "\r" * (not text))
            sys.stderr.flush()
            width = len(text)

    try:
        yield show
    finally:
        show("")
