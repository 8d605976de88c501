"""When a process of a cluster counts as dead, when it is started again, and the error where that does not help."""

from __future__ import annotations

from gnomon.errors import ResourceError

__all__ = ["PING", "START", "dead", "pause"]

PING = 1.0
"""Least seconds between two questions whether a process still answers."""
START = 300.0
"""Least seconds that a process may take to start."""
PAUSE = 2.0
"""Seconds before a process is started again after its second death in a row; they double with each."""


def pause(deaths: int) -> float:
    """Seconds before a process is started again. Args: deaths: in a row. A dead node may hold a place for some time."""
    return PAUSE * 2.0 ** (deaths - 2) if deaths > 1 else 0.0


def dead(what: str, why: str) -> ResourceError:
    """E512. Args: why: as Ray says it; the first lines are shown."""
    lines = [line for line in why.strip().splitlines() if line.strip()]
    return ResourceError(
        "E512",
        what,
        where="launch",
        why="\n   ".join(lines[:8]),
        fix="read the log of its node (ray logs); for lack of memory, lower launch.episodes or launch.samplers; then "
        "gnomon resume RUN",
    )
