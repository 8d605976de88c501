"""Where the workers of a pool come from: processes that have imported what they need before they are forked.

Two fork servers, one behind the other. A `Cradle`, kept for the pools to come, imports modules of Gnomon once and forks
a nursery for each pool; the nursery imports what this pool's function needs and forks its workers. Code of the user is
imported in nurseries alone, so no pool sees what another one's imports did.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from threading import Lock

from gnomon.verifiers.worker import HEAD, framed

__all__ = ["WORKER", "Nursery", "cool"]

WORKER = "GNOMON_WORKER"
"""Variable that tells code which is imported in a worker where it is."""
PATIENCE = 60.0
"""Seconds a fresh process may take to import what it needs."""
LEAVE = 5.0
"""Seconds a process may take to end once it is told to."""
WARM = 8
"""Cradles that are kept; they differ in what an interpreter is started with."""
READ = ("PYTHON", "LC_", "LANG", "TZ", "LD_")
"""Variables that are read when an interpreter starts, by how they begin. All others reach a nursery later."""


class Nursery:
    """The process that forks the workers of one pool.

    Args:
        modules: imported in it, before a worker is forked.
        task: what every worker is told first, pickled; it is opened once here too, for what that imports.
        variables: of its environment, over the caller's.
    Raises: ImportError, when a module cannot be imported.
    """

    def __init__(self, modules: Sequence[str], task: bytes, variables: Mapping[str, str]) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), WORKER: "1", **variables}
        own = [name for name in modules if name.partition(".")[0] == "gnomon"]
        self._channel, self.pid, self._pidfd = born(own, environment)
        self._channel.settimeout(PATIENCE)
        said = b"it died"
        with suppress(OSError, EOFError), self._channel.makefile("rb") as heard:
            self._channel.sendall(pickle.dumps((environment, os.getcwd(), sys.path, list(modules), task)))
            said = framed(heard)
        if said:
            self.kill()
            self.close()
            what = " or ".join(modules)
            raise ImportError(f"a fresh process cannot import {what}: {said.decode(errors='replace')}")

    def hatch(self, theirs: socket.socket) -> None:
        """Fork a worker that listens to a socket. Raises: OSError, when the nursery is gone."""
        socket.send_fds(self._channel, [b"+"], [theirs.fileno()])

    def close(self) -> None:
        """End it; workers end when their own channels close."""
        if self._pidfd < 0:
            return
        self._channel.close()
        if not wait([self._pidfd], LEAVE):
            self.kill()
        os.close(self._pidfd)
        self._pidfd = -1

    def kill(self) -> None:
        """End it at once, whatever it is doing."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        wait([self._pidfd], LEAVE)


class Cradle:
    """An interpreter that has imported modules of Gnomon and nothing of the user's, and forks nurseries."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._channel, theirs = socket.socketpair()
        command = "from gnomon.verifiers.worker import start; start()"
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", command, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=environment,
            )
        self._channel.settimeout(PATIENCE)
        if self._channel.recv(1) != b"!":
            self._channel.close()
            said = self._process.communicate()[1].decode(errors="replace").strip().splitlines()
            raise ImportError(f"a fresh process cannot start: {said[-1] if said else 'it died'}")
        assert self._process.stderr is not None
        self._process.stderr.close()

    def bear(self, modules: Sequence[str]) -> tuple[socket.socket, int, int]:
        """A nursery's channel, process id and process descriptor. Raises: OSError, when the cradle is gone.

        Args: modules, of Gnomon, which the cradle imports first: for this nursery and those to come.
        """
        mine, theirs = socket.socketpair()
        mine.settimeout(PATIENCE)
        with theirs:
            socket.send_fds(self._channel, [" ".join(modules).encode() or b" "], [theirs.fileno()])
        data, descriptors, *_ = socket.recv_fds(mine, HEAD, 1)
        if not descriptors:
            mine.close()
            raise OSError("it is gone")
        return mine, int.from_bytes(data, "little"), descriptors[0]

    def close(self) -> None:
        self._channel.close()
        try:
            self._process.wait(LEAVE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


cradles: OrderedDict[tuple[object, ...], Cradle] = OrderedDict()
"""By what they were started with; the least recently used first."""
changing = Lock()


def born(modules: Sequence[str], environment: Mapping[str, str]) -> tuple[socket.socket, int, int]:
    """A nursery of the cradle whose interpreter read these variables, which is started unless there is one."""
    read = tuple(sorted((name, value) for name, value in environment.items() if name.startswith(READ)))
    kind = os.getpid(), sys.executable, read
    with changing:
        for _ in range(2):
            if kind not in cradles:
                cradles[kind] = Cradle(environment)
                while len(cradles) > WARM:
                    cradles.popitem(last=False)[1].close()
            cradles.move_to_end(kind)
            try:
                return cradles[kind].bear(modules)
            except OSError:  # Somebody killed it.
                cradles.pop(kind).close()
    raise OSError("a process that forks others cannot be kept alive")


@atexit.register
def cool() -> None:
    """End the cradles that are kept. Pools go on; the next one starts a fresh interpreter."""
    with changing:
        while cradles:
            cradles.popitem()[1].close()
