"""A sandbox: untrusted source in namespaces of its own, a process per job, a verdict on nothing but what it computed.

    with Sandbox(workers=2, limits=Limits(cpu_seconds=2)) as sandbox:
        outcomes = sandbox.map([Job(source=source, call="solve", inputs=((1,), (2,)))])

No signal is used and no thread is needed. Limits are kept by killing, so nothing that a job does makes a call wait
longer than its limits and the start of a fresh sandbox. Linux only.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from threading import Condition
from types import TracebackType
from typing import Self

from gnomon.errors import ResourceError
from gnomon.sandbox.alone import alone
from gnomon.sandbox.bubble import way
from gnomon.sandbox.cell import Cell, Plan
from gnomon.sandbox.flight import Flight, Lost
from gnomon.sandbox.job import Broken, Finished, Job, Limits, Ok, Outcome, Raised, Work
from gnomon.sandbox.probe import NO_SANDBOX, Capabilities, capabilities

__all__ = ["Sandbox"]

CHECK = Job(source="def check(x):\n    return x + 1\n", call="check", inputs=((1,),))
CHECKED = (Ok(2),)


class Sandbox:
    """Runs untrusted Python where it can neither reach nor see anything.

    Args:
        workers: sandboxes at most; they are started when needed and serve every thread that maps.
        limits: of each job.
        imports: modules to import once, before any job; jobs then have them at no cost, and may import what stands
            beside them on the caller's search path. Without, jobs have the standard library.
        readable: further paths of the host that jobs may read.
        recycle: jobs after which a worker is replaced. One that a job was killed in, or left something in, always is.
        retries: how often a job is tried again in a fresh sandbox when its sandbox died.
        unsafe: run even where the host cannot confine. What is missing then stands in `capabilities`.
    Raises: ResourceError, E520 to E522, where the host cannot confine, with what mends it.
    """

    def __init__(
        self,
        workers: int = 2,
        limits: Limits | None = None,
        *,
        imports: tuple[str, ...] = (),
        readable: tuple[str, ...] = (),
        recycle: int = 500,
        retries: int = 2,
        unsafe: bool = False,
    ) -> None:
        self.capabilities: Capabilities = capabilities(("sandbox",), unsafe=unsafe)
        self.limit, self.limits, self.recycle, self.retries = workers, limits or Limits(), recycle, retries
        self._plan = Plan(kind=self._kind(), limits=self.limits, imports=imports, readable=readable)
        self._change = Condition()
        self._idle: list[Cell] = []
        self._count = 0
        self._closed = False

    def _kind(self) -> str:
        """How sandboxes are built; without a wall only where that was wanted and there is no other way."""
        walled = all(probe.name != NO_SANDBOX for probe in self.capabilities.missing("sandbox"))
        return way() if walled else "bare"

    def map(self, jobs: Iterable[Work]) -> list[Outcome]:
        """One outcome per job, in order, whatever the order they end in.

        Raises: TypeError, ValueError, for inputs that are not JSON values.
        """
        return self._map(jobs, None)

    async def amap(self, jobs: Iterable[Work]) -> list[Outcome]:
        """`map` without blocking the event loop. When cancelled, the jobs on their way are killed."""
        import asyncio  # Every worker that judges would pay for it.

        mine, theirs = socket.socketpair()
        with theirs:
            running = asyncio.get_running_loop().run_in_executor(None, self._map, jobs, theirs)
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                mine.close()
                with suppress(InterruptedError):
                    await running
                raise
            finally:
                mine.close()

    def _map(self, jobs: Iterable[Work], stop: socket.socket | None) -> list[Outcome]:
        flights = [Flight(job, place, self.limits) for place, job in enumerate(jobs)]
        outcomes: list[Outcome | None] = [None] * len(flights)
        waiting, under_way = deque(flights), set[Flight]()
        with selectors.DefaultSelector() as selector:
            if stop is not None:
                selector.register(stop, selectors.EVENT_READ)
            try:
                while waiting or under_way:
                    while waiting and (cell := self._take(wait=not under_way)) is not None:
                        flight = waiting.popleft()
                        under_way.add(flight)
                        flight.board(cell, selector)
                    self._watch(selector, under_way)
                    for flight in [flight for flight in under_way if flight.outcome is not None]:
                        under_way.remove(flight)
                        outcome = self._landed(flight)
                        if outcome is None:
                            waiting.append(flight)
                        else:
                            outcomes[flight.place] = outcome
            finally:
                for flight in under_way:
                    flight.leave()
                    self._drop(flight.cell)
        return outcomes  # type: ignore[return-value]

    def _watch(self, selector: selectors.BaseSelector, under_way: set[Flight]) -> None:
        """Wait until something is to be read or is overdue, and let the flights see to it."""
        due = min((flight.due for flight in under_way if flight.outcome is None), default=0.0)
        for key, _ in selector.select(max(0.0, due - time.monotonic())):
            if key.data is None:
                raise InterruptedError("the call was cancelled")
            flight, name = key.data
            if flight.outcome is None:
                flight.hear(name)
        now = time.monotonic()
        for flight in under_way:
            if flight.outcome is None and now >= flight.due:
                flight.look(now)

    def _landed(self, flight: Flight) -> Outcome | None:
        """What became of a flight that has come down; None when it is to be tried again."""
        flight.leave()
        cell, outcome = flight.cell, flight.outcome
        if flight.clean and cell.jobs < self.recycle and not self._closed:
            with self._change:
                self._idle.append(cell)
                self._change.notify()
        else:
            self._drop(cell)
        if not isinstance(outcome, Lost):
            return outcome
        if flight.tries <= self.retries:
            flight.outcome = None
            return None
        return self._lost(flight)

    def _lost(self, flight: Flight) -> Outcome:
        """Whose doing it was that a job's sandbox died each time: a fresh one that serves another job clears us."""
        try:
            again, _ = alone(self._plan, CHECK)
        except ResourceError as error:
            return Broken(reason=str(error))
        if isinstance(again, Finished) and again.values == CHECKED:
            return Raised(error=f"Lost: its sandbox died under it {flight.tries} times, and runs other code")
        return Broken(reason=f"sandboxes die: {again}")

    def _take(self, *, wait: bool) -> Cell | None:
        """An idle sandbox or a new one; None when all are busy and the caller would rather not wait."""
        with self._change:
            while True:
                if self._closed:
                    raise ValueError("the sandbox is closed")
                if self._idle:
                    return self._idle.pop()
                if self._count < self.limit:
                    self._count += 1
                    break
                if not wait:
                    return None
                self._change.wait()
        try:
            return Cell.start(self._plan)
        except BaseException:
            with self._change:
                self._count -= 1
                self._change.notify()
            raise

    def _drop(self, cell: Cell) -> None:
        cell.kill()
        with self._change:
            self._count -= 1
            self._change.notify()

    def close(self) -> None:
        """End every sandbox. Calls of `map` that still run in other threads raise ValueError."""
        with self._change:
            self._closed = True
            idle, self._idle = self._idle, []
            self._change.notify_all()
        for cell in idle:
            self._drop(cell)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
