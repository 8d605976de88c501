"""One writer per run folder: an advisory lock that is released when its process ends."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
import weakref
from pathlib import Path

from gnomon.errors import RunError
from gnomon.store.layout import LOCK

__all__ = ["Lock", "is_locked"]

PATIENCE_SECONDS = 0.3
"""How long a writer waits for the lock. A reader holds it briefly to test whether a run is alive."""


class Lock:
    """The writer's lock on a run folder. It is released by `release` or by the end of the process.

    Raises: RunError E402 if another process holds it.
    """

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not _try(self._file, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                os.close(self._file)
                raise _lock_error(folder)
            time.sleep(0.02)
        # The holder's name is optional: a full disk must not prevent a resume.
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)
        _locks.add(self)

    def release(self) -> None:
        _locks.discard(self)
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def is_locked(folder: Path) -> bool:
    """Whether any process, including this one, writes to the run folder."""
    try:
        file = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _try(file, fcntl.LOCK_SH)
    finally:
        os.close(file)


def _try(file: int, mode: int) -> bool:
    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_error(folder: Path) -> RunError:
    try:
        holder = json.loads((folder / LOCK).read_text("utf-8"))
        pid, who = holder["pid"], f"process {holder['pid']} on {holder['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        pid, who = "PID", "another process"
    return RunError(
        "E402",
        f"the run folder is in use by {who}",
        where=str(folder),
        why="only one process can write to a run; any number can read it",
        fix=f"wait until it ends, or stop it: kill {pid}",
    )


_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


def _forget_in_child() -> None:
    """Release the lock in a forked child, which would otherwise hold it after the parent's end."""
    for lock in list(_locks):
        lock.release()


os.register_at_fork(after_in_child=_forget_in_child)
