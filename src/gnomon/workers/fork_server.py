"""Where workers come from: processes that import what workers need, once, and fork them.

There are two, one behind the other. The base server imports modules of Gnomon and is kept for later pools; it forks a
server for each pool, which imports what the pool's function needs and forks its workers. The user's code is imported
in a pool's own server alone, so no pool sees what the imports of another one did.
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

from gnomon.workers.process import Worker
from gnomon.workers.worker import HEAD, frame, framed

__all__ = ["WORKER", "ForkServer", "end_base_servers"]

WORKER = "GNOMON_WORKER"
"""Variable that tells code which is imported in a worker where it is."""
TRIES = 8
"""Tries to start a worker: each may be killed before it is ready, as the server may be."""
START_SECONDS = 60.0
"""How long a fresh process may take to import what it needs."""
END_SECONDS = 5.0
"""How long a process may take to end after it was asked to."""
KEPT = 8
"""Base servers that are kept; they differ in the variables that an interpreter reads when it starts."""
READ = ("PYTHON", "LC_", "LANG", "TZ", "LD_")
"""How the names of those variables begin. All others reach a pool's server later."""

Process = tuple[socket.socket, int, int]
"""Channel, process id and process descriptor."""


class ForkServer:
    """Forks the workers of one pool. One that was killed is replaced.

    Args:
        modules: imported in it, before a worker is forked.
        task: what every worker receives first, pickled; it is opened once here too, for what that imports.
        variables: of its environment, over the caller's.
    Raises: ImportError, when a module cannot be imported.
    """

    def __init__(self, modules: Sequence[str], task: bytes, variables: Mapping[str, str]) -> None:
        self._modules, self._task, self._variables = list(modules), task, dict(variables)
        self._start()

    def _start(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), WORKER: "1", **self._variables}
        own = [name for name in self._modules if name.partition(".")[0] == "gnomon"]
        self._channel, self.pid, self._pidfd = forked_by_base(own, environment)
        self._channel.settimeout(START_SECONDS)
        answer = b"it died"
        with suppress(OSError, EOFError), self._channel.makefile("rb") as stream:
            self._channel.sendall(pickle.dumps((environment, os.getcwd(), sys.path, self._modules, self._task)))
            answer = framed(stream)
        if answer:
            self.kill()
            self.close()
            what = " or ".join(self._modules)
            raise ImportError(f"a fresh process cannot import {what}: {answer.decode(errors='replace')}")

    def worker(self) -> Worker:
        """A fresh worker. Raises: OSError, when none can be started."""
        for _ in range(TRIES):
            mine, theirs = socket.socketpair()
            mine.settimeout(START_SECONDS)
            killed = False
            with suppress(OSError):
                with theirs:
                    socket.send_fds(self._channel, [b"+"], [theirs.fileno()])
                data, descriptors, *_ = socket.recv_fds(mine, HEAD, 1)
                if descriptors:
                    mine.sendall(frame(self._task))
                    mine.setblocking(False)
                    return Worker(mine, int.from_bytes(data, "little"), descriptors[0])
                killed = True
            mine.close()
            if not killed or wait([self._pidfd], 0):
                self.close()
                self._start()
        raise OSError("a worker cannot be started")

    def close(self) -> None:
        """End it; workers end when their own channels close."""
        if self._pidfd < 0:
            return
        self._channel.close()
        if not wait([self._pidfd], END_SECONDS):
            self.kill()
        os.close(self._pidfd)
        self._pidfd = -1

    def kill(self) -> None:
        """End it at once, whatever it is doing."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        wait([self._pidfd], END_SECONDS)


class BaseServer:
    """An interpreter that has imported modules of Gnomon and nothing of the user's, and forks the servers of pools."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._channel, theirs = socket.socketpair()
        command = "from gnomon.workers.worker import serve_base; serve_base()"
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", command, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=environment,
            )
        self._channel.settimeout(START_SECONDS)
        if self._channel.recv(1) != b"!":
            self._channel.close()
            errors = self._process.communicate()[1].decode(errors="replace").strip().splitlines()
            raise ImportError(f"a fresh process cannot start: {errors[-1] if errors else 'it died'}")
        assert self._process.stderr is not None
        self._process.stderr.close()

    def fork(self, modules: Sequence[str]) -> Process:
        """A server for one pool. Raises: OSError, when the base server is gone.

        Args: modules, of Gnomon, which the base server imports first: for this pool and those to come.
        """
        mine, theirs = socket.socketpair()
        mine.settimeout(START_SECONDS)
        with theirs:
            socket.send_fds(self._channel, [" ".join(modules).encode() or b" "], [theirs.fileno()])
        data, descriptors, *_ = socket.recv_fds(mine, HEAD, 1)
        if not descriptors:
            mine.close()
            raise OSError("the base server is gone")
        return mine, int.from_bytes(data, "little"), descriptors[0]

    def close(self) -> None:
        self._channel.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


base_servers: OrderedDict[tuple[object, ...], BaseServer] = OrderedDict()
"""By what they were started with; the least recently used first."""
changing = Lock()


def forked_by_base(modules: Sequence[str], environment: Mapping[str, str]) -> Process:
    """A pool's server, forked by the base server whose interpreter read these variables; it is started if need be."""
    read = tuple(sorted((name, value) for name, value in environment.items() if name.startswith(READ)))
    kind = os.getpid(), sys.executable, read
    with changing:
        for _ in range(2):
            if kind not in base_servers:
                base_servers[kind] = BaseServer(environment)
                while len(base_servers) > KEPT:
                    base_servers.popitem(last=False)[1].close()
            base_servers.move_to_end(kind)
            try:
                return base_servers[kind].fork(modules)
            except OSError:  # Somebody killed it.
                base_servers.pop(kind).close()
    raise OSError("a process that forks others cannot be kept alive")


@atexit.register
def end_base_servers() -> None:
    """End the base servers that are kept. Pools go on; the next one starts a fresh interpreter."""
    with changing:
        while base_servers:
            base_servers.popitem()[1].close()
