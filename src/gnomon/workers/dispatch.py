"""Dispatch jobs to workers: one thread per pool starts workers, sends calls, reads answers and enforces limits."""

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

from gnomon.repeats import Repeats
from gnomon.workers.fork_server import ForkServer
from gnomon.workers.import_time import ZERO, Clocks
from gnomon.workers.outcomes import Died, Exceeded, Lost, Outcome, Raised, Returned
from gnomon.workers.process import Worker
from gnomon.workers.worker import HEAD, frame

__all__ = ["Affinity", "Dispatcher", "Job", "Limits"]

BUSY = 0.5
"""Seconds of a call after which movable jobs do not wait for its worker while another worker is free."""
PIECE = 2**18
"""Largest number of bytes per read."""
OUTCOMES: dict[str, Callable[..., Outcome]] = {"returned": Returned, "raised": Raised, "exceeded": Exceeded}


@dataclass(slots=True, eq=False)
class Affinity:
    """The worker that holds state shared by several jobs.

    The first job with an affinity goes to any worker and binds it. Later jobs go to the same worker.
    """

    worker: Worker | None = None
    """None before the first job and after the end of the worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of a pool."""

    workers: int
    memory: int
    """Address space of a worker, in bytes."""
    output: int
    """Largest pickled result, in bytes."""
    recycle: int
    """Calls after which a worker is replaced."""


@dataclass(slots=True, eq=False, kw_only=True)
class Job:
    """Consecutive calls in one worker. The first call that does not return ends the job."""

    calls: Sequence[bytes]
    seconds: float
    """CPU seconds that each call may use, without imports."""
    wall: float
    """Wall-clock seconds that each call may take, without imports."""
    fresh: bool = False
    """Whether it needs a new worker."""
    affinity: Affinity | None = None
    bound: bool = False
    """Whether it can run only on the worker of its affinity."""
    movable: bool = False
    """Whether a bound job ends with `Lost` where its worker is busy with a long call and another worker is free."""
    repeats: Repeats
    """Deaths of workers that had it."""
    outcomes: list[Outcome] = field(default_factory=list)
    """Outcomes of the calls so far."""
    future: Future[list[Outcome]] = field(default_factory=Future)


@dataclass(slots=True, eq=False)
class Running:
    """A job on its worker, in one of its calls."""

    job: Job
    worker: Worker
    unsent: memoryview = field(default_factory=lambda: memoryview(b""))
    received: bytearray = field(default_factory=bytearray)
    began: float = 0.0
    clocks: Clocks = ZERO
    """Clocks of the worker at the start of the call."""
    due: float = 0.0
    """Time of the next check of its limits."""

    @property
    def call(self) -> bytes:
        return self.job.calls[len(self.job.outcomes)]


class Dispatcher:
    """The thread of a pool. The first job starts it. All methods except `submit`, `post` and `close` run in it.

    Args: opened: unpickles an answer.
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
        """For every worker, the jobs that are bound to it."""
        self._held: dict[Worker, set[Affinity]] = {}

    def submit(self, jobs: Sequence[Job]) -> None:
        """Run jobs; their futures get the outcomes. Raises: ValueError if the pool is closed."""
        for job in jobs:
            job.future.add_done_callback(self._on_cancel)
        self.post(lambda: self._enqueue(jobs))

    def post(self, action: Callable[[], None]) -> None:
        """Run a function in the thread. Raises: ValueError if the pool is closed."""
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
        """Release an affinity whose state is no longer needed."""
        if affinity.worker is not None:
            self._held[affinity.worker].discard(affinity)
            affinity.worker = None

    def close(self) -> None:
        """End every worker. Unfinished jobs fail with ValueError."""
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

    def _on_cancel(self, future: Future[list[Outcome]]) -> None:
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
                self._move()
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
        """Assign jobs to idle workers, bound jobs first."""
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

    def _move(self) -> None:
        """End movable jobs whose worker has been busy for long, as many as there are free workers."""
        free, now = self._free(), time.monotonic()
        for worker, running in self._running.items():
            if free <= 0:
                return
            if now - running.began < BUSY:
                continue
            queue = self._bound[worker]
            for job in [job for job in queue if job.movable][:free]:
                queue.remove(job)
                fail(job, Lost())
                free -= 1

    def _free(self) -> int:
        """Number of workers that are idle or can be started, beside those that waiting jobs will take."""
        return len(self._idle) + self._limits.workers - len(self._held) - len(self._waiting)

    def _worker(self, job: Job) -> Worker | None:
        """An idle or new worker for a job that is not bound; None if it must wait.

        Workers with few affinities are preferred, so that state is spread evenly.
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
        if worker.calls and not worker.alive():  # It was killed while idle.
            self._drop(worker)
            self._enqueue([job])
            return
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
            running.clocks = running.worker.clocks()
        except OSError:
            self._on_death(running)
            return
        self._write(running)

    def _write(self, running: Running) -> None:
        """Send as much of a call as the channel accepts now."""
        channel = running.worker.channel
        try:
            running.unsent = running.unsent[channel.send(running.unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._on_death(running, death_reason(len(running.call), self._limits.memory))
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if running.unsent else 0)
        if self._selector.get_key(channel).events != events:
            self._selector.modify(channel, events, running.worker)

    def _attend(self, worker: Worker, events: int) -> None:
        """Handle a worker's channel that is readable, writable or closed."""
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
            else:  # Output without a call: the worker has ended or is corrupted.
                self._drop(worker)
        elif worker in self._running:
            self._write(self._running[worker])

    def _receive(self, running: Running, piece: bytes) -> None:
        """Handle a part of an answer. An empty part means that the worker has ended."""
        received = running.received
        received += piece
        size = int.from_bytes(received[:HEAD], "little") if len(received) >= HEAD else 0
        if not piece:
            why = death_reason(len(running.call), self._limits.memory) if running.unsent else ""
            self._on_death(running, why)
        elif size > self._limits.output + 1024:
            self._over(running, Exceeded("output"), drop=True)
        elif len(received) >= HEAD + max(size, 1):
            self._answer(running, bytes(received[HEAD : HEAD + size]))

    def _answer(self, running: Running, answer: bytes) -> None:
        try:
            kind, *rest = self._opened(answer)
            if kind == "too large":
                self._on_death(running, death_reason(int(rest[0]), self._limits.memory))
                return
            outcome = OUTCOMES[kind](*rest)
        except Exception as error:  # Only a worker that is no longer ours, or a value that does not travel, does this.
            error_text = f"its answer cannot be read: {type(error).__name__}: {error}"
            self._over(running, Raised(error_text, ""), drop=True)
            return
        running.worker.calls += 1
        self._over(running, outcome, drop=outcome == Exceeded("memory"))

    def _on_death(self, running: Running, why: str = "") -> None:
        """Handle the death of a worker in a call."""
        running.job.repeats.another(why)
        self._over(running, Died(running.job.repeats.count, why))

    def _over(self, running: Running, outcome: Outcome, *, drop: bool = False) -> None:
        """Handle the end of a call. Args: drop: whether to end its worker."""
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
        if isinstance(outcome, Died) and not job.bound and not job.repeats.exhausted:
            self._waiting.append(job)
        elif job.future.set_running_or_notify_cancel():
            job.future.set_result(job.outcomes)

    def _pause(self) -> float | None:
        """Seconds until the next check of a limit."""
        if not self._running:
            return None
        due = [running.due for running in self._running.values()]
        if self._free() > 0:
            due += [
                running.began + BUSY
                for worker, running in self._running.items()
                if any(job.movable for job in self._bound[worker])
            ]
        return max(0.0, min(due) - time.monotonic())

    def _enforce(self) -> None:
        """End calls that exceeded a limit, and calls whose future was cancelled."""
        for running in list(self._running.values()):
            if running.job.future.cancelled():
                del self._running[running.worker]
                self._drop(running.worker)
            elif (exceeded := overdue(running)) is not None:
                self._over(running, exceeded, drop=True)

    def _drop(self, worker: Worker) -> None:
        """End a worker and its state."""
        self._selector.unregister(worker.channel)
        worker.kill()
        if worker in self._idle:
            self._idle.remove(worker)
        for affinity in self._held.pop(worker):
            affinity.worker = None
        for job in self._bound.pop(worker):
            fail(job, Lost())


def death_reason(size: int, memory: int) -> str:
    """Why a worker died of a job. Args: size: of the job, in bytes; memory: limit of the worker, in bytes."""
    return f"it could not receive the job, which has {size:,} bytes; it may use {memory:,} bytes of memory"


def fail(job: Job, error: BaseException) -> None:
    """End a job whose calls cannot be made."""
    if job.future.set_running_or_notify_cancel():
        job.future.set_exception(error)


def overdue(running: Running) -> Exceeded | None:
    """The limit that a call has exceeded; if none, sets `due` to the time of the next check."""
    now = time.monotonic()
    if now < running.due:
        return None
    try:
        used = running.worker.clocks() - running.clocks
    except OSError:
        return None  # The worker has ended; its channel reports it.
    remaining = Clocks(running.job.seconds, running.job.wall) - used
    if remaining.cpu <= 0:
        return Exceeded("cpu")
    if remaining.wall <= 0:
        return Exceeded("wall")
    running.due = now + max(min(remaining), 0.001)
    return None
