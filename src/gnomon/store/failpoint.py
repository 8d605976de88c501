"""Named places where a test can kill the process, so that "survives kill -9" is checked line by line.

`GNOMON_FAILPOINT=checkpoint:before-rename:2` sends SIGKILL at the second pass of that place.
"""

from __future__ import annotations

import os
import signal

__all__ = ["failpoint"]


def _armed(text: str) -> tuple[str, int]:
    name, _, passes = text.rpartition(":")
    return (name, int(passes)) if passes.isdigit() else (text, 1)


_target, _left = _armed(os.environ.get("GNOMON_FAILPOINT", ""))


def failpoint(name: str) -> None:
    """Die here without a chance to clean up, if the environment asks for it."""
    global _left
    if name != _target:
        return
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
