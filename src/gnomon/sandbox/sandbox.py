"""A sandbox: run untrusted source in separate namespaces, with one process per job.

    with Sandbox(workers=2, limits=Limits(cpu_seconds=2)) as sandbox:
        outcomes = sandbox.map([Job(source=source, call="solve", inputs=((1,), (2,)))])

It uses no signals and needs no threads. Limits are enforced by killing, so a call takes at most the limits of its jobs
and the start of a new sandbox. Linux only.
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
from gnomon.sandbox.execution import Execution, Lost
from gnomon.sandbox.job import Broken, Finished, Job, Limits, Ok, Outcome, Raised, Work
from gnomon.sandbox.probe import NO_SANDBOX, Capabilities, capabilities
from gnomon.sandbox.worker import Plan, SandboxWorker

__all__ = ["Sandbox"]

CHECK = Job(source="def check(x):\n    return x + 1\n", call="check", inputs=((1,),))
CHECKED = (Ok(2),)


class Sandbox:
    """Runs untrusted Python code in isolation from the host.

    Args:
        workers: largest number of sandbox workers. They start on demand and are shared by all calling threads.
        limits: resource limits of each job.
        imports: modules to import once, before any job. Jobs can use them at no cost, and can import other modules on
            the caller's search path. Without `imports`, jobs have only the standard library.
        readable: further paths of the host that jobs may read.
        recycle: number of jobs after which a worker is replaced. A worker is always replaced after a killed job or a
            job that left files or processes.
        retries: retries of a job in a new sandbox after its sandbox died.
        unsafe: run even if the host cannot confine. `capabilities` then lists what is missing.
    Raises: ResourceError, E520 to E522, with a fix, if the host cannot confine.
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
        self._idle: list[SandboxWorker] = []
        self._count = 0
        self._closed = False

    def _kind(self) -> str:
        """The kind of sandbox; unconfined only if `unsafe` is set and no sandbox can be built."""
        walled = all(probe.name != NO_SANDBOX for probe in self.capabilities.missing("sandbox"))
        return way() if walled else "bare"

    def map(self, jobs: Iterable[Work]) -> list[Outcome]:
        """One outcome per job, in the order of the jobs.

        Raises: TypeError or ValueError for inputs that are not JSON values.
        """
        return self._map(jobs, None)

    async def amap(self, jobs: Iterable[Work]) -> list[Outcome]:
        """`map` without blocking the event loop. Cancelling it kills the running jobs."""
        import asyncio  # Imported here, because judging workers do not need it.

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
        executions = [Execution(job, i, self.limits, self.retries) for i, job in enumerate(jobs)]
        outcomes: list[Outcome | None] = [None] * len(executions)
        waiting, busy = deque(executions), set[Execution]()
        with selectors.DefaultSelector() as selector:
            if stop is not None:
                selector.register(stop, selectors.EVENT_READ)
            try:
                while waiting or busy:
                    while waiting and (worker := self._take(wait=not busy)) is not None:
                        execution = waiting.popleft()
                        busy.add(execution)
                        execution.begin(worker, selector)
                    self._watch(selector, busy)
                    for execution in [execution for execution in busy if execution.outcome is not None]:
                        busy.remove(execution)
                        outcome = self._outcome(execution)
                        if outcome is None:
                            waiting.append(execution)
                        else:
                            outcomes[execution.index] = outcome
            finally:
                for execution in busy:
                    execution.leave()
                    self._drop(execution.worker)
        return outcomes  # type: ignore[return-value]

    def _watch(self, selector: selectors.BaseSelector, busy: set[Execution]) -> None:
        """Wait until data arrives or a check is due, and let the executions handle it."""
        due = min((execution.due for execution in busy if execution.outcome is None), default=0.0)
        for key, _ in selector.select(max(0.0, due - time.monotonic())):
            if key.data is None:
                raise InterruptedError("the call was cancelled")
            execution, name = key.data
            if execution.outcome is None:
                execution.receive(name)
        now = time.monotonic()
        for execution in busy:
            if execution.outcome is None and now >= execution.due:
                execution.check_limits(now)

    def _outcome(self, execution: Execution) -> Outcome | None:
        """The outcome of a finished execution; None if it will be retried."""
        execution.leave()
        worker, outcome = execution.worker, execution.outcome
        if execution.clean and worker.jobs < self.recycle and not self._closed:
            with self._change:
                self._idle.append(worker)
                self._change.notify()
        else:
            self._drop(worker)
        if not isinstance(outcome, Lost):
            return outcome
        if execution.repeats.another():
            execution.outcome = None
            return None
        return self._loss(execution)

    def _loss(self, execution: Execution) -> Outcome:
        """The outcome of a job whose sandbox died on each try. The job is at fault if a new sandbox runs a test job."""
        try:
            again, _ = alone(self._plan, CHECK)
        except ResourceError as error:
            return Broken(reason=str(error))
        if isinstance(again, Finished) and again.values == CHECKED:
            return Raised(error=f"Lost: its sandbox died {execution.repeats.count} times, and runs other code")
        return Broken(reason=f"sandboxes die: {again}")

    def _take(self, *, wait: bool) -> SandboxWorker | None:
        """An idle or new worker; None if all are busy and `wait` is false."""
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
            return SandboxWorker.start(self._plan)
        except BaseException:
            with self._change:
                self._count -= 1
                self._change.notify()
            raise

    def _drop(self, worker: SandboxWorker) -> None:
        worker.kill()
        with self._change:
            self._count -= 1
            self._change.notify()

    def close(self) -> None:
        """End all workers. Running calls of `map` in other threads raise ValueError."""
        with self._change:
            self._closed = True
            idle, self._idle = self._idle, []
            self._change.notify_all()
        for worker in idle:
            self._drop(worker)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
