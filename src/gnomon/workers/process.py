"""The pool's side of a worker: a process and a channel."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass

from gnomon.workers.import_time import Clocks, ImportTime

__all__ = ["Worker"]


@dataclass(slots=True, eq=False)
class Worker:
    """A process that answers calls."""

    channel: socket.socket
    pid: int
    pidfd: int
    imports: ImportTime
    calls: int = 0
    """Number of answered calls."""

    def clocks(self) -> Clocks:
        """Its time without that of imports: CPU seconds over all its threads, and the wall clock.

        Raises: OSError if it has ended.
        """
        now = Clocks(time.clock_gettime(~self.pid << 3 | 2), time.monotonic())  # Clock id of another process on Linux.
        return now - self.imports.time_spent(now)

    def alive(self) -> bool:
        watch = select.poll()
        watch.register(self.pidfd, select.POLLIN)
        return not watch.poll(0)

    def kill(self) -> None:
        """Kill the worker and all processes of its session."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGSTOP)  # It cannot be gone, nor start more, from here on.
            os.killpg(self.pid, signal.SIGKILL)
        os.close(self.pidfd)
        self.imports.close()
        self.channel.close()
