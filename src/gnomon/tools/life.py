"""What the processes of a session do, seen from outside: how much processor time they used, and whether they want more.

A deadline in processor time, and a silence that counts only while nobody works, come out the same on a busy machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import sysconf
from pathlib import Path

__all__ = ["busy", "spent"]

TICK = sysconf("SC_CLK_TCK")
STATE, TIMES = 0, slice(11, 15)
"""Places behind the name in /proc/PID/stat: the state, and utime, stime, cutime, cstime."""


def spent(pid: int) -> float:
    """Seconds of processor time of a process and all below it, those it outlived included."""
    return sum(sum(map(int, stat[TIMES])) for stat in below(pid)) / TICK


def busy(pid: int) -> bool:
    """Whether a process or any below it runs, waits to run, or waits for a disk."""
    return any(stat[STATE] in ("R", "D") for stat in below(pid))


def below(pid: int) -> Iterator[list[str]]:
    """What the kernel tells of a process and of all that it started, of those still there."""
    waiting = [str(pid)]
    while waiting:
        own = Path("/proc", waiting.pop())
        try:
            stat = (own / "stat").read_text().rpartition(")")[2].split()
            for thread in (own / "task").iterdir():
                waiting += (thread / "children").read_text().split()
        except OSError:
            continue
        yield stat
