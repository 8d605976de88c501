"""The time of imports in a worker. It is not time of the call that happens to need a module first.

A worker counts it in memory that it shares with its dispatcher.
"""

from __future__ import annotations

import builtins
import importlib
import mmap
import os
import struct
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

__all__ = ["MOST", "ZERO", "Clocks", "ImportTime", "own_cpu"]

MOST = 60.0
"""Seconds of imports, on either clock, that a worker does not count as time of its calls."""
PAGE = struct.Struct("4d")
"""Processor and wall-clock seconds of finished imports; readings of both clocks when the present import began, or 0."""


class Clocks(NamedTuple):
    """Two readings, or two amounts."""

    cpu: float
    wall: float

    def __sub__(self, other: Clocks) -> Clocks:
        return Clocks(self.cpu - other.cpu, self.wall - other.wall)


ZERO = Clocks(0.0, 0.0)


def clocks() -> Clocks:
    """The clocks of this process. Another process can read both."""
    return Clocks(time.process_time(), time.monotonic())


class ImportTime:
    """Args: descriptor: of a file in memory that worker and dispatcher have mapped."""

    def __init__(self, descriptor: int) -> None:
        os.ftruncate(descriptor, PAGE.size)
        self._page = mmap.mmap(descriptor, PAGE.size)

    def time_spent(self, now: Clocks) -> Clocks:
        """What the worker has spent on imports, at most `MOST`. Args: now: the worker's clocks."""
        cpu, wall, *began = PAGE.unpack_from(self._page)
        if any(began):
            cpu, wall = cpu + now.cpu - began[0], wall + now.wall - began[1]
        return Clocks(max(0.0, min(MOST, cpu)), max(0.0, min(MOST, wall)))  # In this order, NaN is `MOST`.

    def count(self) -> None:
        """Count the imports of this process from now on."""
        OWN.append(self)
        builtins.__import__ = self._count(builtins.__import__)
        importlib.import_module = self._count(importlib.import_module)

    def close(self) -> None:
        self._page.close()

    def _count(self, function: Callable[..., Any]) -> Callable[..., Any]:
        own = os.getpid()

        @wraps(function)
        def wrapper(*arguments: Any, **keywords: Any) -> Any:
            cpu, wall, *began = PAGE.unpack_from(self._page)
            if any(began) or os.getpid() != own:  # Part of another import, or in a process of the function.
                return function(*arguments, **keywords)
            first = clocks()
            PAGE.pack_into(self._page, 0, cpu, wall, *first)
            try:
                return function(*arguments, **keywords)
            finally:
                used = clocks() - first
                PAGE.pack_into(self._page, 0, cpu + used.cpu, wall + used.wall, 0.0, 0.0)

        return wrapper


OWN: list[ImportTime] = []
"""The import time of this process, if it is a worker."""


def own_cpu() -> float:
    """Processor seconds of this process; of a worker, without imports."""
    now = clocks()
    return (now - OWN[-1].time_spent(now)).cpu if OWN else now.cpu
