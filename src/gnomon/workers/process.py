"""A worker as its pool sees it: a process with a channel."""

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
    """That it has answered."""

    def cpu(self) -> float:
        """Seconds of processor time it has used, over all its threads. Raises: OSError, when it is gone."""
        return time.clock_gettime(~self.pid << 3 | 2)  # Linux's clock of another process.

    def alive(self) -> bool:
        watch = select.poll()
        watch.register(self.pidfd, select.POLLIN)
        return not watch.poll(0)

    def kill(self) -> None:
        """End it, and all that it started in its own session."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGSTOP)  # It cannot be gone, nor start more, from here on.
            os.killpg(self.pid, signal.SIGKILL)
        os.close(self.pidfd)
        self.channel.close()
