"""How torch's threads wait for each other: they spin while the cores are theirs, and sleep beside other work.

Waking a thread takes longer than most operations, so spinning threads compute up to five times as fast. Beside other
work, each spins for a thread that is not running. libgomp reads its settings when torch is loaded, and never again. But
in a process that has more of its threads than cores, all of them sleep at once: a parked team has this effect.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

__all__ = ["Parked", "libgomp", "set_threads", "sleeps"]

PERIOD = 0.25
"""Seconds between two decisions."""
IDLE = 0.02
"""Seconds of computing and waiting in a period below which nothing is decided."""
CROWDED, ALONE = 0.35, 0.15
"""Shares of their time that threads wait for a core: above the first they sleep, below the second they spin. With two
threads on two cores, spinning threads waited for 0 to 0.1 of it alone, and for 0.42 to 0.5 beside one busy process."""


def set_threads(count: int) -> None:
    """Compute with so many threads of torch, from this thread on."""
    torch.set_num_threads(count)
    if count > 1 and not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        adapt()


@cache
def adapt() -> None:
    """Choose how threads wait, until the process ends. Without libgomp, they wait as they do."""
    if gomp := libgomp():
        threading.Thread(target=decide, args=(gomp,), name="gnomon-waiting", daemon=True).start()


def decide(gomp: ctypes.CDLL) -> None:
    """Park a team while there is other work, until the process ends."""
    parked, before = None, spent()
    while True:
        time.sleep(PERIOD)
        now = spent()
        ran, waited = (max(0.0, b - a) for a, b in zip(before, now, strict=True))
        before = now
        asleep = sleeps(parked is not None, ran, waited)
        if asleep and parked is None:
            parked = Parked(gomp)
        elif not asleep and parked is not None:
            parked.end()
            parked = None


def sleeps(asleep: bool, ran: float, waited: float) -> bool:
    """Whether threads sleep from now on. Args: asleep: whether they do now; ran, waited: as `spent`, of a period."""
    if ran + waited < IDLE:
        return asleep
    return waited / (ran + waited) > (ALONE if asleep else CROWDED)


def spent() -> tuple[float, float]:
    """Seconds that the threads of this process have computed, and seconds that they have waited for a core."""
    ran = waited = 0
    for path in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(OSError):  # The thread has ended.
            on_core, in_queue, _ = map(int, path.read_text("utf-8").split())
            ran, waited = ran + on_core, waited + in_queue
    return ran / 1e9, waited / 1e9


def libgomp() -> ctypes.CDLL | None:
    """The OpenMP library that torch was loaded with, if it is GCC's."""
    torch.zeros(1, device="cpu")
    lines = Path("/proc/self/maps").read_text("utf-8").splitlines()
    paths = (line.split(maxsplit=5)[5] for line in lines if "libgomp" in line)
    return next(map(ctypes.CDLL, paths), None)


class Parked:
    """A team of as many threads as there are cores, which sleeps: with it, all teams of the process sleep at once."""

    def __init__(self, gomp: ctypes.CDLL) -> None:
        self._end, formed = threading.Event(), threading.Event()
        nothing = ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p)  # Of a null pointer.

        def wait() -> None:
            gomp.GOMP_parallel(nothing, None, len(os.sched_getaffinity(0)), 0)
            formed.set()
            self._end.wait()

        self._thread = threading.Thread(target=wait, name="gnomon-parked", daemon=True)
        self._thread.start()
        formed.wait()

    def end(self) -> None:
        """End the team; the others spin again."""
        self._end.set()
        self._thread.join()
