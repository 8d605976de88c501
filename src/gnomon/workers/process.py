"""The pool's side of a worker: a process and a channel."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass

__all__ = ["Worker"]


@dataclass(slots=True, eq=False)
class Worker:
    """A process that answers calls."""

    channel: socket.socket
    pid: int
    pidfd: int
    calls: int = 0
    """Number of answered calls."""

    def cpu(self) -> float:
        """CPU seconds over all its threads. Raises: OSError if it has ended."""
        return time.clock_gettime(~self.pid << 3 | 2)  # Clock id of another process on Linux.

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
        self.channel.close()
