"""Processor time of what a simulation computes in the place of other machines. It is not that of the scheduler."""

from __future__ import annotations

import time
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

__all__ = ["Stopwatch"]

T = TypeVar("T")


class Stopwatch:
    """Counts the processor time of this thread within `with` statements. They may be nested."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth, self._began = 0, 0.0

    def __enter__(self) -> None:
        if not self._depth:
            self._began = time.thread_time()
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if not self._depth:
            self.seconds += time.thread_time() - self._began

    @coroutine
    def time_steps(self, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """A coroutine whose steps are counted, and not what runs while it waits."""
        sent: Any = None
        raised: BaseException | None = None
        while True:
            try:
                with self:
                    awaited = work.throw(raised) if raised else work.send(sent)
            except StopIteration as end:
                found: T = end.value
                return found
            try:
                sent, raised = (yield awaited), None
            except BaseException as error:  # Also that the task is cancelled.
                raised = error
