"""Fork servers: processes that import the workers' modules once, and fork the workers.

There are two levels. The base server imports modules of Gnomon and is kept for later pools. It forks one server per
pool, which imports the modules of the pool's function and forks its workers. The user's code is imported only in the
server of its pool, so pools do not share side effects of imports.
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

from gnomon.import_path import inherited_path
from gnomon.workers.import_time import ImportTime
from gnomon.workers.process import Worker
from gnomon.workers.worker import HEAD, frame, read_frame

__all__ = ["WORKER", "ForkServer", "end_base_servers"]

WORKER = "GNOMON_WORKER"
"""Environment variable that is set in workers, so that imported code can detect them."""
TRIES = 8
"""Number of tries to start a process that may be killed before it is ready."""
START_SECONDS = 60.0
"""Seconds that a new process may take for its imports."""
END_SECONDS = 5.0
"""Seconds that a process may take to end after a request."""
KEPT = 8
"""Number of base servers that are kept. They differ in the variables that an interpreter reads at its start."""
READ = ("PYTHON", "LC_", "LANG", "TZ", "LD_")
"""Prefixes of these variables. All others are sent to a pool's server later."""

Process = tuple[socket.socket, int, int]
"""Channel, process id and process descriptor."""


class ForkServer:
    """Forks the workers of one pool. A killed server is replaced.

    Args:
        modules: modules that it imports before it forks.
        task: the first pickle for every worker. The server unpickles it once too, for its imports.
        variables: environment variables in addition to the caller's.
    Raises: ImportError if a module cannot be imported.
    """

    def __init__(self, modules: Sequence[str], task: bytes, variables: Mapping[str, str]) -> None:
        self._modules, self._task, self._variables = list(modules), task, dict(variables)
        self._start()

    def _start(self) -> None:
        path = inherited_path()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), WORKER: "1", **self._variables}
        own = [name for name in self._modules if name.partition(".")[0] == "gnomon"]
        for _ in range(2):  # The first may have been killed.
            self._channel, self.pid, self._pidfd = forked_by_base(own, environment)
            self._channel.settimeout(START_SECONDS)
            answer = b"it died"
            with suppress(OSError, EOFError), self._channel.makefile("rb") as stream:
                self._channel.sendall(pickle.dumps((environment, os.getcwd(), path, self._modules, self._task)))
                answer = read_frame(stream)
            if not answer:
                return
            ended = bool(wait([self._pidfd], 1.0))
            self.kill()
            self.close()
            if not ended:
                break
        what = " or ".join(self._modules)
        raise ImportError(f"a fresh process cannot import {what}: {answer.decode(errors='replace')}")

    def worker(self) -> Worker:
        """A new worker. Raises: OSError if none can be started."""
        for _ in range(TRIES):
            mine, theirs = socket.socketpair()
            mine.settimeout(START_SECONDS)
            killed = False
            with suppress(OSError):
                with theirs:
                    socket.send_fds(self._channel, [b"+"], [theirs.fileno()])
                data, descriptors, *_ = socket.recv_fds(mine, HEAD, 2)
                if descriptors:
                    pidfd, page = descriptors
                    imports = ImportTime(page)
                    os.close(page)
                    mine.sendall(frame(self._task))
                    mine.setblocking(False)
                    return Worker(mine, int.from_bytes(data, "little"), pidfd, imports)
                killed = True
            mine.close()
            if not killed or wait([self._pidfd], 0):
                self.close()
                self._start()
        raise OSError("a worker cannot be started")

    def close(self) -> None:
        """End the server. Workers end when their channels close."""
        if self._pidfd < 0:
            return
        self._channel.close()
        if not wait([self._pidfd], END_SECONDS):
            self.kill()
        os.close(self._pidfd)
        self._pidfd = -1

    def kill(self) -> None:
        """Kill the server."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        wait([self._pidfd], END_SECONDS)


class BaseServer:
    """An interpreter with modules of Gnomon and without the user's code. It forks the servers of pools.

    Raises: ImportError if it cannot start; OSError if it was killed before it was ready.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._channel, theirs = socket.socketpair()
        command = "from gnomon.workers.worker import serve_base; serve_base()"
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", command, str(theirs.fileno())],
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
            if self._process.returncode < 0:
                raise OSError(f"a fresh process was ended by signal {-self._process.returncode}")
            raise ImportError(f"a fresh process cannot start: {errors[-1] if errors else 'it died'}")
        assert self._process.stderr is not None
        self._process.stderr.close()

    def fork(self, modules: Sequence[str]) -> Process:
        """A server for one pool. Raises: OSError if the base server has ended.

        Args: modules: modules of Gnomon that the base server imports first, for this and later pools.
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
"""Base servers by their start settings, the least recently used first."""
changing = Lock()


def forked_by_base(modules: Sequence[str], environment: Mapping[str, str]) -> Process:
    """A pool's server, forked by the base server with these variables, which is started if necessary."""
    variables = tuple(sorted((name, value) for name, value in environment.items() if name.startswith(READ)))
    kind = os.getpid(), sys.executable, variables
    with changing:
        for _ in range(TRIES):
            try:
                if kind not in base_servers:
                    base_servers[kind] = BaseServer(environment)
                    while len(base_servers) > KEPT:
                        base_servers.popitem(last=False)[1].close()
                base_servers.move_to_end(kind)
                return base_servers[kind].fork(modules)
            except OSError:  # Somebody killed it.
                if kind in base_servers:
                    base_servers.pop(kind).close()
    raise OSError("a process that forks others cannot be kept alive")


@atexit.register
def end_base_servers() -> None:
    """End the kept base servers. Existing pools continue; the next pool starts a new interpreter."""
    with changing:
        while base_servers:
            base_servers.popitem()[1].close()
