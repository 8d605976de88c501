"""Named places where a test can kill the process, to test recovery from `kill -9` at each of them.

`GNOMON_FAILPOINT=checkpoint:before-rename:2` sends SIGKILL at the second pass of that place.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

__all__ = ["failpoint"]


def _parse(text: str) -> tuple[str, int]:
    name, _, passes = text.rpartition(":")
    return (name, int(passes)) if passes.isdigit() else (text, 1)


_passes: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """Kill this process with SIGKILL if the environment variable names this place."""
    target, last = _parse(os.environ.get("GNOMON_FAILPOINT", ""))
    if name != target:
        return
    _passes[name] += 1
    if _passes[name] == last:
        os.kill(os.getpid(), signal.SIGKILL)
