"""One writer per run folder: an advisory lock that dies with its process."""

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
"""A reader that asks whether a run is alive holds the lock for an instant; a writer waits this long for it."""


class Lock:
    """The writer's hold on a run folder. Released by `release`, or by the death of the process.

    Raises: RunError E402 when another process holds it.
    """

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not _try(self._file, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                os.close(self._file)
                raise _held(folder)
            time.sleep(0.02)
        # The name of the holder is a courtesy: a full disk must not keep anyone from resuming.
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
    """Whether some process, this one included, is writing to the run folder."""
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


def _held(folder: Path) -> RunError:
    try:
        holder = json.loads((folder / LOCK).read_text())
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
    """A forked child shares the lock and would hold it after its parent's death: it lets go at birth."""
    for lock in list(_locks):
        lock.release()


os.register_at_fork(after_in_child=_forget_in_child)
