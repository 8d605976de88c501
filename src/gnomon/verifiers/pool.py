"""Run a function where it can be killed: worker processes with deadlines, a memory limit, and nothing to lose.

    with Pool(check, workers=2, seconds=1.0) as pool:
        outcomes = pool.map([(task, reply) for reply in replies])

No signal is used and no thread is needed, so a pool works from any thread and from async code. Deadlines are kept
by killing, so nothing that a function does can make a call wait longer. Linux only.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from threading import Condition
from types import TracebackType
from typing import Any, Literal, Self

from gnomon.sandbox.probe import capabilities
from gnomon.verifiers.carry import packed
from gnomon.verifiers.nursery import Nursery
from gnomon.verifiers.sealed import opened
from gnomon.verifiers.worker import HEAD, frame

__all__ = ["Died", "Exceeded", "Outcome", "Pool", "Raised", "Returned"]


@dataclass(frozen=True, slots=True)
class Returned:
    """The function came back with a value."""

    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """The function raised, whatever it was; exits and interrupts included."""

    error: str
    """Type and message."""
    trace: str
    """The innermost frames."""


@dataclass(frozen=True, slots=True)
class Exceeded:
    """The job used more than it may and was ended."""

    resource: Literal["cpu", "wall", "memory", "output"]


@dataclass(frozen=True, slots=True)
class Died:
    """The worker went away under the job, each time it was tried: a crash of the interpreter, or somebody's kill."""

    tries: int
    why: str = ""
    """What is known of the reason; empty where nothing is."""


Outcome = Returned | Raised | Exceeded | Died
KINDS: dict[str, Callable[..., Outcome]] = {"returned": Returned, "raised": Raised, "exceeded": Exceeded}


@dataclass(slots=True, eq=False)
class Worker:
    channel: socket.socket
    pid: int
    pidfd: int
    jobs: int = 0

    def cpu(self) -> float:
        """Seconds of processor time it has used, over all its threads."""
        return time.clock_gettime(~self.pid << 3 | 2)  # Linux's clock of another process.

    def alive(self) -> bool:
        return not wait([self.pidfd], 0)

    def kill(self) -> None:
        """End it, and all that it started in its own session."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGSTOP)  # It cannot be gone, nor start more, from here on.
            os.killpg(self.pid, signal.SIGKILL)
        os.close(self.pidfd)
        self.channel.close()


@dataclass(slots=True)
class Flight:
    """A job on its way."""

    worker: Worker
    place: int
    tries: int
    began: float
    cpu: float
    seconds: float
    """Of processor time that it may take."""
    wall: float
    due: float = field(init=False)
    """When to look at it next."""
    heard: bytearray = field(default_factory=bytearray)
    """Of the answer, so far."""

    def __post_init__(self) -> None:
        self.due = self.began + min(self.seconds, self.wall)


class Pool:
    """Calls of one function in processes of their own.

    Args:
        function: anything that `packed` carries to a worker: of a module, a notebook or the main script, or a bound
            method of a picklable object.
        workers: processes at most; they are started when needed and serve every thread that maps.
        seconds: of processor time a job may use. A machine that is busy elsewhere does not use it up.
        wall: seconds a job may take by the clock, asleep or starved; ten times `seconds` if not given.
        memory: bytes of address space of a worker.
        output: bytes of a pickled result.
        recycle: jobs after which a worker is replaced.
        retries: how often a job is tried again on a fresh worker when its worker died.
        imports: modules that the function imports when it runs; they are imported once, before workers are forked,
            so that no job pays for them.
        hardened: for a function that others wrote and that reads hostile text. Its workers have no network, start no
            process, signal nobody, write nothing and read nothing but Python's modules; of their answers only verdicts
            and plain values are opened, whatever they send.
        readable: further paths that hardened workers may read.
        variables: of the workers' environment, over the caller's.
    Raises: ResourceError, E522, where the host cannot harden; ImportError, where a fresh process cannot import it.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        workers: int = 2,
        *,
        seconds: float = 1.0,
        wall: float | None = None,
        memory: int = 2**30,
        output: int = 2**20,
        recycle: int = 10_000,
        retries: int = 1,
        imports: Iterable[str] = (),
        hardened: bool = False,
        readable: tuple[str, ...] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        if hardened:
            capabilities(("worker",))
        self.limit, self.seconds, self.wall = workers, seconds, 10 * seconds if wall is None else wall
        self.memory, self.output, self.recycle, self.retries = memory, output, recycle, retries
        module = getattr(function, "__self__", function)
        name = getattr(module, "__module__", None) or type(module).__module__
        self._task = packed((function, memory, output, readable if hardened else None))
        self._open = opened if hardened else pickle.loads
        self._change = Condition()
        self._idle: list[Worker] = []
        self._count = 0
        self._closed = False
        modules = [*([] if name == "__main__" else [name]), *imports]
        self._nursed = modules, self._task, dict(variables or {})
        self._nursery = Nursery(*self._nursed)

    def map(self, jobs: Iterable[tuple[Any, ...]], *, fresh: bool = False, patience: float = 1.0) -> list[Outcome]:
        """One outcome per job, in order, whatever the order they end in.

        A job that cannot be pickled is `Raised`. One that a worker has no memory to receive is `Died`, with both sizes.

        Args:
            fresh: every job gets a worker that has done nothing before.
            patience: times as much processor time, and time by the clock, as a job may usually take.
        """
        return self._map(jobs, None, fresh, patience)

    async def amap(self, jobs: Iterable[tuple[Any, ...]], *, fresh: bool = False) -> list[Outcome]:
        """`map` without blocking the event loop. When cancelled, the jobs on their way are killed."""
        import asyncio  # Every worker would pay for it.

        mine, theirs = socket.socketpair()
        with theirs:
            running = asyncio.get_running_loop().run_in_executor(None, self._map, jobs, theirs, fresh)
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                mine.close()
                with suppress(InterruptedError):
                    await running
                raise
            finally:
                mine.close()

    def _map(
        self, jobs: Iterable[tuple[Any, ...]], stop: socket.socket | None, fresh: bool, patience: float = 1.0
    ) -> list[Outcome]:
        seconds, wall = patience * self.seconds, patience * self.wall
        payloads, outcomes = self._pickled(jobs)
        waiting = deque((place, 0) for place, payload in enumerate(payloads) if payload is not None)
        flights: dict[socket.socket, Flight] = {}

        def ended(place: int, tries: int, outcome: Outcome) -> None:
            if isinstance(outcome, Died) and tries <= self.retries:
                waiting.append((place, tries))
            else:
                outcomes[place] = outcome

        try:
            while waiting or flights:
                while waiting and (worker := self._take(fresh, wait=not flights)) is not None:
                    if worker.jobs and not worker.alive():  # Somebody killed it while it was idle.
                        self._drop(worker)
                        continue
                    place, tries = waiting.popleft()
                    flight = Flight(worker, place, tries + 1, time.monotonic(), 0.0, seconds, wall)
                    if (died := self._sent(flight, payloads[place] or b"")) is None:
                        flights[worker.channel] = flight
                    else:
                        ended(place, tries + 1, died)
                if not flights:
                    continue
                pause = max(0.0, min(flight.due for flight in flights.values()) - time.monotonic())
                ready = wait([*flights, *([stop] if stop is not None else [])], pause)
                if stop is not None and stop in ready:
                    raise InterruptedError("the call was cancelled")
                for channel in ready:
                    flight = flights[channel]  # type: ignore[index]
                    outcome = self._hear(flight)
                    if outcome is None:
                        continue
                    del flights[flight.worker.channel]
                    ended(flight.place, flight.tries, outcome)
                for channel, flight in list(flights.items()):
                    if (spent := self._overdue(flight)) is not None:
                        self._drop(flights.pop(channel).worker)
                        outcomes[flight.place] = spent
        finally:
            for flight in flights.values():
                self._drop(flight.worker)
        return outcomes  # type: ignore[return-value]

    def _pickled(self, jobs: Iterable[tuple[Any, ...]]) -> tuple[list[bytes | None], list[Outcome | None]]:
        """Every job as bytes, and the outcome of those that cannot be sent."""
        payloads: list[bytes | None] = []
        outcomes: list[Outcome | None] = []
        for job in jobs:
            payload: bytes | None = None
            outcome: Outcome | None = None
            try:
                payload = packed(job)
            except Exception as error:  # A job's own code decides how it is pickled, so it may raise anything.
                outcome = Raised(f"the job cannot be sent to a worker: {type(error).__name__}: {error}", "")
            size = 0 if payload is None else len(payload)
            if size >= self.memory:
                payload, outcome = None, Died(1, self._unheld(size))
            payloads.append(payload)
            outcomes.append(outcome)
        return payloads, outcomes

    def _sent(self, flight: Flight, payload: bytes) -> Died | None:
        """Send a job to its worker. Returns: how the worker died before it had all of the job."""
        worker = flight.worker
        try:
            flight.cpu = worker.cpu()
            worker.channel.sendall(len(payload).to_bytes(HEAD, "little"))
            worker.channel.sendall(payload)
            return None
        except OSError:
            self._drop(worker)
            return Died(flight.tries, self._unheld(len(payload)))

    def _unheld(self, size: int) -> str:
        return f"it could not receive the job, which has {size:,} bytes; it may use {self.memory:,} bytes of memory"

    def _hear(self, flight: Flight) -> Outcome | None:
        """The answer of a worker that has something to say, if only that it is gone; None while it is not whole."""
        worker, heard = flight.worker, flight.heard
        try:
            piece = worker.channel.recv(2**16)
        except OSError:
            piece = b""
        heard += piece
        size = int.from_bytes(heard[:HEAD], "little") if len(heard) >= HEAD else 0
        if not piece or size > self.output + 1024:
            self._drop(worker)
            return Exceeded("output") if piece else Died(flight.tries)
        if len(heard) < HEAD + max(size, 1):
            return None
        try:
            kind, *rest = self._open(bytes(heard[HEAD : HEAD + size]))
            if kind == "unheld":
                self._drop(worker)
                return Died(flight.tries, self._unheld(int(rest[0])))
            outcome = KINDS[kind](*rest)
        except Exception as error:  # Only a worker that is no longer ours, or a value that does not travel, does this.
            self._drop(worker)
            return Raised(f"its answer cannot be read: {type(error).__name__}: {error}", "")
        self._give(worker)
        return outcome

    def _overdue(self, flight: Flight) -> Exceeded | None:
        """What a flight has used up; if nothing yet, when to look again."""
        now = time.monotonic()
        if now < flight.due:
            return None
        try:
            used = flight.worker.cpu() - flight.cpu
        except OSError:
            return None  # It is gone; its channel says so.
        if used >= flight.seconds:
            return Exceeded("cpu")
        if now - flight.began >= flight.wall:
            return Exceeded("wall")
        flight.due = min(now + max(flight.seconds - used, 0.001), flight.began + flight.wall)
        return None

    def _take(self, fresh: bool, *, wait: bool) -> Worker | None:
        """An idle worker or a new one; None when all are busy and the caller would rather not wait."""
        with self._change:
            while True:
                if self._closed:
                    raise ValueError("the pool is closed")
                if fresh and self._idle and self._idle[-1].jobs:
                    self._drop(self._idle.pop())
                    continue
                if self._idle:
                    return self._idle.pop()
                if self._count < self.limit:
                    self._count += 1
                    try:
                        return self._hatch()
                    except BaseException:
                        self._count -= 1
                        raise
                if not wait:
                    return None
                self._change.wait()

    def _hatch(self) -> Worker:
        """A fresh worker; from a fresh nursery, if somebody killed the old one."""
        for _ in range(2):
            mine, theirs = socket.socketpair()
            mine.settimeout(self.wall)
            with suppress(OSError):
                with theirs:
                    self._nursery.hatch(theirs)
                data, descriptors, *_ = socket.recv_fds(mine, HEAD, 1)
                if descriptors:
                    mine.sendall(frame(self._task))
                    return Worker(mine, int.from_bytes(data, "little"), descriptors[0])
            mine.close()
            self._nursery.close()
            self._nursery = Nursery(*self._nursed)
        raise OSError("a worker cannot be started")

    def _give(self, worker: Worker) -> None:
        """Back to the idle, unless it has served its time."""
        worker.jobs += 1
        if worker.jobs >= self.recycle or self._closed:
            self._drop(worker)
            return
        with self._change:
            self._idle.append(worker)
            self._change.notify()

    def _drop(self, worker: Worker) -> None:
        worker.kill()
        with self._change:
            self._count -= 1
            self._change.notify()

    def close(self) -> None:
        """End every worker. Calls of `map` that still run in other threads raise ValueError."""
        with self._change:
            self._closed = True
            idle, self._idle = self._idle, []
            self._change.notify_all()
        for worker in idle:
            self._drop(worker)
        self._nursery.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
