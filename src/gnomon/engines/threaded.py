"""An engine in a thread of its own, so that it samples while the rest of the run computes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch

from gnomon.engines.base import Counted, Engine, Tier
from gnomon.models.weights import WeightsRef
from gnomon.stats import Stats
from gnomon.types import Completion, Request

__all__ = ["Changeable", "LoopThread", "Renewing", "Thread", "Threaded"]

T = TypeVar("T")


class Thread(Protocol):
    """Where coroutines run beside the caller."""

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]: ...

    def inside(self) -> bool: ...

    def close(self) -> None: ...


class LoopThread:
    """An event loop that runs in a thread of its own, with the caller's number of torch's threads."""

    def __init__(self) -> None:
        self._loop, threads = asyncio.new_event_loop(), torch.get_num_threads()

        def body() -> None:
            torch.set_num_threads(threads)
            asyncio.set_event_loop(self._loop)
            self._loop.run_forever()

        self._thread = threading.Thread(target=body, name="gnomon-ahead", daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin a coroutine."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def inside(self) -> bool:
        """Whether the caller runs in this thread."""
        return threading.current_thread() is self._thread

    def close(self) -> None:
        """Cancel what runs, and end the thread."""

        async def cancel() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self.submit(cancel()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@runtime_checkable
class Changeable(Engine, Protocol):
    """An engine that can load weights while it samples, if `in_flight` is set."""

    tier: Tier
    in_flight: bool


@runtime_checkable
class Renewing(Engine, Counted, Protocol):
    """An engine that takes requests from any thread, and loads weights while it samples."""

    @property
    def thread(self) -> Thread | None:
        """Where it samples; None for other processes."""
        ...


class Threaded:
    """Samples with an engine in a thread of its own: it takes requests from any thread, and loads while it samples.

    Its tier is `measured`: when a load comes, between which tokens, depends on the clock.

    Args: thread: by default a new one.
    """

    def __init__(self, engine: Changeable, thread: Thread | None = None) -> None:
        self.engine: Changeable = engine
        self.thread: Thread = thread or LoopThread()
        self._loaded: int | None = None
        """Version that this object loaded last."""
        engine.in_flight, engine.tier = True, Tier.MEASURED

    @property
    def version(self) -> int:
        return self.engine.version

    @property
    def tier(self) -> Tier:
        return self.engine.tier

    @property
    def versions(self) -> Mapping[str, str]:
        """Of an engine that has an environment of its own, those of its packages; otherwise empty."""
        return getattr(self.engine, "versions", {})

    async def sample(self, request: Request) -> Completion:
        if self.thread.inside():
            return await self.engine.sample(request)
        return await asyncio.wrap_future(self.thread.submit(self.engine.sample(request)))

    def load(self, weights: WeightsRef) -> None:
        """Replace the weights between two tokens. A version that was loaded last is not loaded again."""
        if weights.version == self._loaded:
            return

        async def work() -> None:
            self.engine.load(weights)

        if self.thread.inside():
            self.engine.load(weights)
        else:
            self.thread.submit(work()).result()
        self._loaded = weights.version

    def counts(self) -> Stats:
        return self.engine.counts() if isinstance(self.engine, Counted) else {}

    def close(self) -> None:
        """End the thread, and the engine."""
        self.thread.close()
        self.engine.close()
