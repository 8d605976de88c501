"""End everything that a process started, also what left its session. Standard library only: a host runs it by its path.

A process that has called `adopt` becomes the parent of every orphan below it (Linux's child subreaper), so no
descendant can leave its tree by forking twice or by a session of its own.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress

__all__ = ["adopt", "end_all", "end_with_parent", "kept"]

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def adopt() -> None:
    """Become the parent of the orphans among this process's descendants."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent() -> None:
    """Be killed when the parent ends. The parent must fork from a thread that lives as long as it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end_all() -> None:
    """Kill all descendants of this process, which has called `adopt`, and wait until they are gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    while True:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            for pid in descendants():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.001)
            continue
        return


def descendants() -> list[int]:
    """Process ids of all that descends from this process."""
    below: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    # The name of a program stands in brackets, and may hold any sign.
                    parent = int(file.read().rpartition(")")[2].split()[1])
                below.setdefault(parent, []).append(int(name))
    found, open_ = [], [os.getpid()]
    while open_:
        children = below.get(open_.pop(), [])
        found += children
        open_ += children
    return found


def kept(run: Callable[[], None], channel: int) -> None:
    """Run something in a child, until it ends or the other end of the channel closes; then end all that it started.

    A busy child is ended too, since it is this process that listens. Returns when nothing is left.
    """
    adopt()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        try:
            end_with_parent()
            run()
        finally:
            os._exit(0)
    pidfd = os.pidfd_open(child)
    events = select.poll()
    events.register(channel, select.POLLHUP | select.POLLRDHUP)
    events.register(pidfd, select.POLLIN)
    events.poll()
    end_all()
