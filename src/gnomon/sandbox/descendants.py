"""End all descendants of a process, also those that left its session. Needs only the standard library.

After `adopt`, a process becomes the parent of every orphan below it (Linux's child subreaper). A descendant cannot
escape by forking twice or by starting a session. Hosts run this module by its path.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress

__all__ = ["adopt", "end_all", "end_with_parent", "run_contained"]

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def adopt() -> None:
    """Become the parent of all orphaned descendants."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent() -> None:
    """Kill this process when its parent ends. The parent must fork from a thread that lives as long as it does."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end_all() -> None:
    """Kill all descendants of this process and wait until they are gone. Call `adopt` first."""
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
    """Process ids of all descendants of this process."""
    below: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    # The program name is in parentheses, and may contain any character.
                    parent = int(file.read().rpartition(")")[2].split()[1])
                below.setdefault(parent, []).append(int(name))
    result, open_ = [], [os.getpid()]
    while open_:
        children = below.get(open_.pop(), [])
        result += children
        open_ += children
    return result


def run_contained(run: Callable[[], None], channel: int) -> None:
    """Run a function in a child until it ends or the channel closes; then end all its descendants.

    This process watches the channel, so a busy child is ended too. Returns when no descendant is left.
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
