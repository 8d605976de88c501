"""When a process of a cluster counts as dead, and the error where restarts do not help."""

from __future__ import annotations

from gnomon.errors import ResourceError

__all__ = ["PING", "START", "dead"]

PING = 1.0
"""Least seconds between two questions whether a process still answers."""
START = 300.0
"""Least seconds that a process may take to start."""


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
