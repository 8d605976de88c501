"""Observe the processes of a session from outside: the CPU time they used, and whether they are busy.

A deadline in CPU time, and a silence that counts only while no process is busy, do not depend on the machine's load.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import sysconf
from pathlib import Path

__all__ = ["busy", "cpu_seconds"]

TICK = sysconf("SC_CLK_TCK")
STATE, TIMES = 0, slice(11, 15)
"""Fields after the name in /proc/PID/stat: the state, and utime, stime, cutime, cstime."""


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process and all its descendants, including ended ones."""
    return sum(sum(map(int, stat[TIMES])) for stat in below(pid)) / TICK


def busy(pid: int) -> bool:
    """Whether a process or a descendant runs, waits to run, or waits for a disk."""
    return any(stat[STATE] in ("R", "D") for stat in below(pid))


def below(pid: int) -> Iterator[list[str]]:
    """Yield the fields of /proc/PID/stat of a process and its living descendants."""
    waiting = [str(pid)]
    while waiting:
        own = Path("/proc", waiting.pop())
        try:
            stat = (own / "stat").read_text("utf-8").rpartition(")")[2].split()
            for thread in (own / "task").iterdir():
                waiting += (thread / "children").read_text("utf-8").split()
        except OSError:
            continue
        yield stat
