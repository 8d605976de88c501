"""An event loop whose clock jumps: hours of waiting take as long as the code between them."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from concurrent.futures import Future
from math import inf, nextafter
from typing import Any, TypeVar

__all__ = ["SameThread", "VirtualLoop"]

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """When no task can go on, its clock jumps to the next timer.

    Raises: RuntimeError where every task waits and there is no timer.
    """

    def __init__(self) -> None:
        self.now = 0.0
        """Seconds since the loop was made."""
        super().__init__(Jumping(self))

    def time(self) -> float:
        return self.now

    def end(self) -> None:
        """Cancel what still waits, and close."""

        async def cancel() -> None:
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

        self.run_until_complete(cancel())
        self.close()


class Jumping(selectors.SelectSelector):
    """Waits for nothing but moves the clock of its loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self.loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("every task waits, and no timer is set")
        if not ready and timeout:
            self.loop.now = nextafter(self.loop.now + timeout, inf)  # Past the timer, so that it is due.
        return ready


class SameThread:
    """Takes the place of a thread that samples ahead: its work runs in the loop of the caller."""

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin a coroutine."""
        return asyncio.run_coroutine_threadsafe(work, asyncio.get_running_loop())

    def inside(self) -> bool:
        """Whether the caller runs in this thread."""
        return True

    def close(self) -> None:
        """Nothing: the caller's loop ends its tasks."""
