"""Jobs to workers: one thread of a pool starts workers, sends calls, reads answers and keeps limits by killing."""

from __future__ import annotations

import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock, Thread, current_thread
from typing import Any

from gnomon.workers.fork_server import ForkServer
from gnomon.workers.outcomes import Died, Exceeded, Lost, Outcome, Raised, Returned
from gnomon.workers.process import Worker
from gnomon.workers.worker import HEAD, frame

__all__ = ["Affinity", "Dispatcher", "Job", "Limits"]

PIECE = 2**18
"""Bytes that are read at once."""
OUTCOMES: dict[str, Callable[..., Outcome]] = {"returned": Returned, "raised": Raised, "exceeded": Exceeded}


@dataclass(slots=True, eq=False)
class Affinity:
    """Which worker holds the state that several jobs share.

    A job with an affinity that has no worker goes to any worker, and binds it; the next jobs go to the same worker.
    """

    worker: Worker | None = None
    """None before the first job and once the worker has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of a pool."""

    workers: int
    memory: int
    """Bytes of address space of a worker."""
    output: int
    """Bytes of a pickled result."""
    recycle: int
    """Calls after which a worker is replaced."""
    retries: int
    """How often a job is tried again when its worker died."""


@dataclass(slots=True, eq=False, kw_only=True)
class Job:
    """Calls that one worker makes one after another. The first call that does not return ends the job."""

    calls: Sequence[bytes]
    seconds: float
    """Of processor time that each call may use."""
    wall: float
    """Seconds that each call may take by the clock."""
    fresh: bool = False
    """Whether it needs a worker that has done nothing before."""
    affinity: Affinity | None = None
    bound: bool = False
    """Whether it needs the worker of its affinity, and no other."""
    tries: int = 0
    outcomes: list[Outcome] = field(default_factory=list)
    """Of the calls that were made."""
    future: Future[list[Outcome]] = field(default_factory=Future)


@dataclass(slots=True, eq=False)
class Running:
    """A job on its worker, in one of its calls."""

    job: Job
    worker: Worker
    unsent: memoryview = field(default_factory=lambda: memoryview(b""))
    received: bytearray = field(default_factory=bytearray)
    began: float = 0.0
    cpu: float = 0.0
    """Processor time of the worker when the call began."""
    due: float = 0.0
    """When its limits are looked at next."""

    @property
    def call(self) -> bytes:
        return self.job.calls[len(self.job.outcomes)]


class Dispatcher:
    """The thread of a pool. It is started by the first job, and everything but `submit`, `post` and `close` runs in it.

    Args: opened: reads a pickled answer.
    """

    def __init__(self, server: ForkServer, limits: Limits, opened: Callable[[bytes], Any]) -> None:
        self._server, self._limits, self._opened = server, limits, opened
        self._lock = Lock()
        self._closed = False
        self._thread: Thread | None = None
        self._posted: deque[Callable[[], None]] = deque()
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._waiting: deque[Job] = deque()
        self._idle: list[Worker] = []
        self._running: dict[Worker, Running] = {}
        self._bound: dict[Worker, deque[Job]] = {}
        """Of every worker, the jobs that wait for it and no other."""
        self._held: dict[Worker, set[Affinity]] = {}

    def submit(self, jobs: Sequence[Job]) -> None:
        """Run jobs; their futures get the outcomes. Raises: ValueError, when the pool is closed."""
        for job in jobs:
            job.future.add_done_callback(self._cancelled)
        self.post(lambda: self._enqueue(jobs))

    def post(self, action: Callable[[], None]) -> None:
        """Run something in the thread. Raises: ValueError, when the pool is closed."""
        with self._lock:
            if self._closed:
                raise ValueError("the pool is closed")
            self._posted.append(action)
            if self._thread is None:
                for end in (self._wake, self._woken):
                    end.setblocking(False)
                self._selector.register(self._woken, selectors.EVENT_READ)
                self._thread = Thread(target=self._serve, name="gnomon pool", daemon=True)
                self._thread.start()
        self._wake_up()

    def release(self, affinity: Affinity) -> None:
        """Forget which worker holds some state; it is there no more."""
        if affinity.worker is not None:
            self._held[affinity.worker].discard(affinity)
            affinity.worker = None

    def close(self) -> None:
        """End every worker. Jobs that are not done fail with ValueError."""
        with self._lock:
            first, self._closed = not self._closed, True
        if not first:
            return
        if self._thread is None:
            self._end(ValueError("the pool is closed"))
        elif self._thread is not current_thread():
            self._wake_up()
            self._thread.join()

    def _wake_up(self) -> None:
        with suppress(OSError):  # It is full, so the thread will wake; or closed.
            self._wake.send(b"!")

    def _cancelled(self, future: Future[list[Outcome]]) -> None:
        if future.cancelled():
            self._wake_up()

    def _serve(self) -> None:
        error: BaseException = ValueError("the pool is closed")
        try:
            while not self._closed:
                while self._posted:
                    self._posted.popleft()()
                self._assign()
                for key, events in self._selector.select(self._pause()):
                    if key.data is None:
                        self._woken.recv(PIECE)
                    else:
                        self._attend(key.data, events)
                self._enforce()
        except BaseException as problem:
            error = problem
            raise
        finally:
            with self._lock:
                self._closed = True
            self._end(error)

    def _end(self, error: BaseException) -> None:
        while self._posted:
            self._posted.popleft()()
        jobs = [*self._waiting, *(job for queue in self._bound.values() for job in queue)]
        jobs += [running.job for running in self._running.values()]
        for worker in list(self._held):
            self._running.pop(worker, None)
            self._bound[worker].clear()
            self._drop(worker)
        for job in jobs:
            fail(job, error)
        self._selector.close()
        self._wake.close()
        self._woken.close()
        self._server.close()

    def _enqueue(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            worker = job.affinity.worker if job.affinity is not None else None
            if not job.bound:
                self._waiting.append(job)
            elif worker is None:
                fail(job, Lost())
            else:
                self._bound[worker].append(job)

    def _assign(self) -> None:
        """Give jobs to idle workers. Those that only one worker can do come first."""
        for idle in list(self._idle):
            while idle in self._idle and self._bound[idle]:
                self._begin(idle, self._bound[idle].popleft())
        while self._waiting:
            job = self._waiting[0]
            try:
                worker = None if job.future.cancelled() else self._worker(job)
            except Exception as error:  # No worker can be started.
                self._waiting.popleft()
                fail(job, error)
                continue
            if worker is None and not job.future.cancelled():
                return
            self._waiting.popleft()
            if worker is not None:
                self._begin(worker, job)

    def _worker(self, job: Job) -> Worker | None:
        """An idle worker or a new one for a job that any can do; None when it has to wait.

        A worker that holds little is preferred, so that state is spread over all of them.
        """
        room = len(self._held) < self._limits.workers
        if self._idle:
            worker = min(reversed(self._idle), key=lambda each: len(self._held[each]))
            if job.fresh and worker.calls:
                self._drop(worker)
                room = True
            elif not (room and self._held[worker]):
                return worker
        if not room:
            return None
        worker = self._server.worker()
        self._idle.append(worker)
        self._bound[worker], self._held[worker] = deque(), set()
        self._selector.register(worker.channel, selectors.EVENT_READ, worker)
        return worker

    def _begin(self, worker: Worker, job: Job) -> None:
        if job.future.cancelled():
            return
        if worker.calls and not worker.alive():  # Somebody killed it while it was idle.
            self._drop(worker)
            self._enqueue([job])
            return
        job.tries += 1
        job.outcomes.clear()
        if job.affinity is not None and not job.bound:
            self.release(job.affinity)
            job.affinity.worker = worker
            self._held[worker].add(job.affinity)
        self._idle.remove(worker)
        running = self._running[worker] = Running(job, worker)
        self._send(running)

    def _send(self, running: Running) -> None:
        """Begin the next call of a job."""
        running.began = time.monotonic()
        running.received = bytearray()
        running.unsent = memoryview(frame(running.call))
        running.due = running.began + min(running.job.seconds, running.job.wall)
        try:
            running.cpu = running.worker.cpu()
        except OSError:
            self._over(running, Died(running.job.tries))
            return
        self._write(running)

    def _write(self, running: Running) -> None:
        """Send as much of a call as its worker takes now."""
        channel = running.worker.channel
        try:
            running.unsent = running.unsent[channel.send(running.unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._over(running, Died(running.job.tries, self._unreceived(len(running.call))))
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if running.unsent else 0)
        if self._selector.get_key(channel).events != events:
            self._selector.modify(channel, events, running.worker)

    def _attend(self, worker: Worker, events: int) -> None:
        """Something of a worker's channel can be read or written, or it has ended."""
        if worker not in self._held:
            return  # It was dropped since.
        if events & selectors.EVENT_READ:
            try:
                piece = worker.channel.recv(PIECE)
            except BlockingIOError:
                return
            except OSError:
                piece = b""
            if worker in self._running:
                self._receive(self._running[worker], piece)
            else:  # Nobody asked it: it has ended, or is no longer ours.
                self._drop(worker)
        elif worker in self._running:
            self._write(self._running[worker])

    def _receive(self, running: Running, piece: bytes) -> None:
        """A part of the answer to a call; an empty one says that the worker is gone."""
        received = running.received
        received += piece
        size = int.from_bytes(received[:HEAD], "little") if len(received) >= HEAD else 0
        if not piece:
            why = self._unreceived(len(running.call)) if running.unsent else ""
            self._over(running, Died(running.job.tries, why))
        elif size > self._limits.output + 1024:
            self._over(running, Exceeded("output"), drop=True)
        elif len(received) >= HEAD + max(size, 1):
            self._answer(running, bytes(received[HEAD : HEAD + size]))

    def _answer(self, running: Running, answer: bytes) -> None:
        try:
            kind, *rest = self._opened(answer)
            if kind == "too large":
                self._over(running, Died(running.job.tries, self._unreceived(int(rest[0]))))
                return
            outcome = OUTCOMES[kind](*rest)
        except Exception as error:  # Only a worker that is no longer ours, or a value that does not travel, does this.
            error_text = f"its answer cannot be read: {type(error).__name__}: {error}"
            self._over(running, Raised(error_text, ""), drop=True)
            return
        running.worker.calls += 1
        self._over(running, outcome, drop=outcome == Exceeded("memory"))

    def _over(self, running: Running, outcome: Outcome, *, drop: bool = False) -> None:
        """A call has ended. Args: drop: whether its worker is of no more use."""
        job, worker = running.job, running.worker
        job.outcomes.append(outcome)
        drop = drop or isinstance(outcome, Died)
        if isinstance(outcome, Returned) and len(job.outcomes) < len(job.calls) and not job.future.cancelled():
            self._send(running)
            return
        del self._running[worker]
        if drop or worker.calls >= self._limits.recycle:
            self._drop(worker)
        else:
            self._idle.append(worker)
        if isinstance(outcome, Died) and not job.bound and job.tries <= self._limits.retries:
            self._waiting.append(job)
        elif job.future.set_running_or_notify_cancel():
            job.future.set_result(job.outcomes)

    def _pause(self) -> float | None:
        """Seconds until a limit has to be looked at."""
        if not self._running:
            return None
        return max(0.0, min(running.due for running in self._running.values()) - time.monotonic())

    def _enforce(self) -> None:
        """End what has used up its limits, and what nobody waits for any more."""
        for running in list(self._running.values()):
            if running.job.future.cancelled():
                del self._running[running.worker]
                self._drop(running.worker)
            elif (exceeded := overdue(running)) is not None:
                self._over(running, exceeded, drop=True)

    def _drop(self, worker: Worker) -> None:
        """End a worker, and with it all that it holds."""
        self._selector.unregister(worker.channel)
        worker.kill()
        if worker in self._idle:
            self._idle.remove(worker)
        for affinity in self._held.pop(worker):
            affinity.worker = None
        for job in self._bound.pop(worker):
            fail(job, Lost())

    def _unreceived(self, size: int) -> str:
        memory = self._limits.memory
        return f"it could not receive the job, which has {size:,} bytes; it may use {memory:,} bytes of memory"


def fail(job: Job, error: BaseException) -> None:
    """End a job whose calls cannot be made."""
    if job.future.set_running_or_notify_cancel():
        job.future.set_exception(error)


def overdue(running: Running) -> Exceeded | None:
    """What a call has used up; if nothing yet, its `due` says when to look again."""
    now = time.monotonic()
    if now < running.due:
        return None
    try:
        used = running.worker.cpu() - running.cpu
    except OSError:
        return None  # It is gone; its channel says so.
    if used >= running.job.seconds:
        return Exceeded("cpu")
    if now - running.began >= running.job.wall:
        return Exceeded("wall")
    running.due = min(now + max(running.job.seconds - used, 0.001), running.began + running.job.wall)
    return None
