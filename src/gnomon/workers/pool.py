"""Run a function where it can be killed: worker processes with deadlines, a memory limit, and nothing to lose.

    with Pool(check, workers=2, seconds=1.0) as pool:
        outcomes = pool.map([(task, reply) for reply in replies])

No signal is used, and one thread serves all calls, so a pool works from any thread and from async code. Deadlines are
kept by killing, so nothing that a function does can make a call wait longer. Linux only.
"""

from __future__ import annotations

import pickle
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from types import TracebackType
from typing import Any, Self

from gnomon.sandbox.probe import capabilities
from gnomon.workers.dispatch import Affinity, Dispatcher, Job, Limits
from gnomon.workers.fork_server import ForkServer
from gnomon.workers.outcomes import Died, Outcome, Raised
from gnomon.workers.sealed import opened
from gnomon.workers.serialise import packed

__all__ = ["Affinity", "Pool"]

Call = tuple[Any, ...]
"""Arguments of the pool's function."""


class Pool:
    """Calls of one function in processes of their own.

    Args:
        function: anything that `packed` carries to a worker: of a module, a notebook or the main script, or a bound
            method of a picklable object.
        workers: processes at most; they are started when needed and serve every caller.
        seconds: of processor time a call may use. A machine that is busy elsewhere does not use it up.
        wall: seconds a call may take by the clock, asleep or starved; ten times `seconds` if not given.
        memory: bytes of address space of a worker.
        output: bytes of a pickled result.
        recycle: calls after which a worker is replaced.
        retries: how often a call is tried again on another worker when its worker died.
        imports: modules that the function imports when it runs; they are imported once, before workers are forked,
            so that no call pays for them.
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
        self.seconds, self.wall, self.memory = seconds, 10 * seconds if wall is None else wall, memory
        module = getattr(function, "__self__", function)
        name = getattr(module, "__module__", None) or type(module).__module__
        task = packed((function, memory, output, readable if hardened else None))
        modules = [*([] if name == "__main__" else [name]), *imports]
        self._server = ForkServer(modules, task, variables or {})
        limits = Limits(workers=workers, memory=memory, output=output, recycle=recycle, retries=retries)
        self._dispatcher = Dispatcher(self._server, limits, opened if hardened else pickle.loads)
        self._end = weakref.finalize(self, self._dispatcher.close)

    def map(self, calls: Iterable[Call], *, fresh: bool = False, patience: float = 1.0) -> list[Outcome]:
        """One outcome per call, in order, whatever the order they end in.

        A call that cannot be pickled is `Raised`. One that no worker can receive is `Died`, with both sizes.

        Args:
            fresh: every call gets a worker that has done nothing before.
            patience: times as much processor time, and time by the clock, as a call may usually take.
        """
        futures = self._submit(calls, fresh, patience)
        try:
            wait(futures)
        except BaseException:
            for future in futures:
                future.cancel()
            raise
        return [future.result()[0] for future in futures]

    async def amap(self, calls: Iterable[Call], *, fresh: bool = False) -> list[Outcome]:
        """`map` without blocking the event loop. When cancelled, the calls on their way are killed."""
        import asyncio  # Every worker would pay for it.

        futures = self._submit(calls, fresh, 1.0)
        return [outcomes[0] for outcomes in await asyncio.gather(*map(asyncio.wrap_future, futures))]

    def submit(
        self, calls: Sequence[Call], affinity: Affinity, *, bound: bool = False, fresh: bool = False
    ) -> Future[list[Outcome]]:
        """Calls that one worker makes one after another, each within its own limits; the first that fails is the last.

        Args:
            affinity: gets the worker that makes them, so that later calls find what they left there.
            bound: whether only the worker of the affinity will do.
            fresh: as of `map`.
        Returns: the outcomes of the calls that were made. Cancelling it kills the worker; it raises `Lost` where the
            calls are bound to a worker that has ended.
        """
        job = self._job(calls, fresh=fresh, affinity=affinity, bound=bound)
        if not job.future.done():
            self._dispatcher.submit([job])
        return job.future

    def release(self, affinity: Affinity) -> None:
        """Nothing is left on the worker of an affinity. A closed pool holds nothing."""
        if self._end.alive:
            self._dispatcher.post(partial(self._dispatcher.release, affinity))

    def _submit(self, calls: Iterable[Call], fresh: bool, patience: float) -> list[Future[list[Outcome]]]:
        jobs = [self._job([call], fresh=fresh, patience=patience) for call in calls]
        self._dispatcher.submit([job for job in jobs if not job.future.done()])
        return [job.future for job in jobs]

    def _job(self, calls: Sequence[Call], *, patience: float = 1.0, **settings: Any) -> Job:
        """A job; one that cannot be sent is done."""
        job = Job(calls=[], seconds=patience * self.seconds, wall=patience * self.wall, **settings)
        try:
            job.calls = [packed(call) for call in calls]
        except Exception as error:  # A value's own code decides how it is pickled, so it may raise anything.
            error_text = f"the job cannot be sent to a worker: {type(error).__name__}: {error}"
            job.future.set_result([Raised(error_text, "")])
            return job
        size = max(map(len, job.calls))
        if size >= self.memory:
            why = f"it could not receive the job, which has {size:,} bytes; it may use {self.memory:,} bytes of memory"
            job.future.set_result([Died(1, why)])
        return job

    def close(self) -> None:
        """End every worker. Calls that are not done raise ValueError."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
