"""Run a function in worker processes that can be killed, with deadlines and a memory limit.

    with Pool(check, workers=2, seconds=1.0) as pool:
        outcomes = pool.map([(task, reply) for reply in replies])

A pool uses no signals, and one thread serves all calls, so it works from any thread and from async code. Deadlines are
enforced by killing, so a function cannot exceed them. Linux only.
"""

from __future__ import annotations

import io
import pickle
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self

from gnomon.repeats import Repeats
from gnomon.sandbox.probe import capabilities
from gnomon.types import Part, Verdict
from gnomon.workers.dispatch import Affinity, Dispatcher, Job, Limits, death_reason
from gnomon.workers.fork_server import ForkServer
from gnomon.workers.outcomes import Died, Outcome, Raised
from gnomon.workers.serialise import pack_value

__all__ = ["Affinity", "Pool", "load_pickle"]

Call = tuple[Any, ...]
"""Arguments of the pool's function."""


class Pool:
    """Calls one function in worker processes.

    Args:
        function: anything that `pack_value` carries to a worker: of a module, a notebook or the main script, or a bound
            method of a picklable object.
        workers: largest number of processes. They start on demand and are shared by all callers.
        seconds: CPU seconds that a call may use. They do not depend on the machine's load, and do not include imports,
            up to a minute of a worker's life.
        wall: wall-clock seconds that a call may take, without imports; by default ten times `seconds`.
        memory: address space of a worker, in bytes.
        output: largest pickled result, in bytes.
        recycle: number of calls after which a worker is replaced.
        retries: number of retries of a call on another worker after its worker died.
        imports: modules that the function imports when it runs. They are imported once, before workers are forked, so
            that calls do not spend time on them.
        hardened: for an untrusted function, or one that reads hostile text. Its workers have no network, start no
            process, send no signals, write nothing and read only Python's modules. Only verdicts and plain values are
            unpickled from their answers.
        readable: additional paths that hardened workers may read.
        variables: environment variables of the workers in addition to the caller's.
    Raises: ResourceError E522 if the host cannot harden; ImportError if a new process cannot import the function.
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
        self.retries = retries
        module = getattr(function, "__self__", function)
        name = getattr(module, "__module__", None) or type(module).__module__
        task = pack_value((function, memory, output, readable if hardened else None))
        modules = [*([] if name == "__main__" else [name]), *imports]
        self._server = ForkServer(modules, task, variables or {})
        limits = Limits(workers=workers, memory=memory, output=output, recycle=recycle)
        self._dispatcher = Dispatcher(self._server, limits, load_pickle if hardened else pickle.loads)
        self._end = weakref.finalize(self, self._dispatcher.close)

    def map(self, calls: Iterable[Call], *, fresh: bool = False, patience: float = 1.0) -> list[Outcome]:
        """One outcome per call, in the order of the calls.

        A call that cannot be pickled is `Raised`. A call that is too large for a worker is `Died`, with both sizes.

        Args:
            fresh: every call gets a new worker.
            patience: factor on the CPU and wall-clock limits of a call.
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
        """`map` without blocking the event loop. Cancelling it kills the running calls."""
        import asyncio  # Every worker would pay for it.

        futures = self._submit(calls, fresh, 1.0)
        return [outcomes[0] for outcomes in await asyncio.gather(*map(asyncio.wrap_future, futures))]

    def submit(
        self,
        calls: Sequence[Call],
        affinity: Affinity,
        *,
        bound: bool = False,
        movable: bool = False,
        fresh: bool = False,
    ) -> Future[list[Outcome]]:
        """Consecutive calls in one worker, each within its own limits. The first failure ends them.

        Args:
            affinity: is bound to the worker, so that later calls find the state there.
            bound: whether the calls can run only on the worker of the affinity.
            movable: whether bound calls give up that worker where it is busy with a long call and another one is free.
            fresh: as in `map`.
        Returns: the outcomes of the calls that were made. Cancelling it kills the worker. It raises `Lost` if the
            calls are bound to a worker that has ended or was given up.
        """
        job = self._job(calls, fresh=fresh, affinity=affinity, bound=bound, movable=movable)
        if not job.future.done():
            self._dispatcher.submit([job])
        return job.future

    def release(self, affinity: Affinity) -> None:
        """Release the worker of an affinity, whose state is no longer needed."""
        if self._end.alive:
            self._dispatcher.post(partial(self._dispatcher.release, affinity))

    def _submit(self, calls: Iterable[Call], fresh: bool, patience: float) -> list[Future[list[Outcome]]]:
        jobs = [self._job([call], fresh=fresh, patience=patience) for call in calls]
        self._dispatcher.submit([job for job in jobs if not job.future.done()])
        return [job.future for job in jobs]

    def _job(self, calls: Sequence[Call], *, patience: float = 1.0, **settings: Any) -> Job:
        """Make a job. A job that cannot be pickled is finished at once."""
        seconds, wall = patience * self.seconds, patience * self.wall
        job = Job(calls=[], seconds=seconds, wall=wall, repeats=Repeats(self.retries), **settings)
        try:
            job.calls = [pack_value(call) for call in calls]
        except Exception as error:  # A value's own code decides how it is pickled, so it may raise anything.
            error_text = f"the job cannot be sent to a worker: {type(error).__name__}: {error}"
            job.future.set_result([Raised(error_text, "")])
            return job
        size = max(map(len, job.calls))
        if size >= self.memory:
            job.future.set_result([Died(1, death_reason(size, self.memory))])
        return job

    def close(self) -> None:
        """End every worker. Unfinished calls raise ValueError."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


NAMED = {
    "gnomon.types": {"Part", "Status", "Verdict"},
    "builtins": {"bytearray", "complex", "frozenset", "set"},
}


class Sealed(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name not in NAMED.get(module, ()):
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return super().find_class(module, name)


def load_pickle(payload: bytes) -> Any:
    """The value of a pickle. Raises: pickle.UnpicklingError if it uses anything else; ValueError or TypeError for an
    invalid verdict."""
    value = Sealed(io.BytesIO(payload)).load()
    if isinstance(value, tuple):
        return tuple(check_value(item) for item in value)
    return check_value(value)


def check_value(value: Any) -> Any:
    """A verdict rebuilt and validated from its fields; any other value unchanged."""
    if not isinstance(value, Verdict):
        return value
    for part in value.parts:
        if type(part) is not Part or not all(type(number) in (int, float) for number in (part.value, part.weight)):
            raise TypeError(f"{part!r} is not part of a verdict")
    return replace(value, parts=tuple(value.parts))
