"""Threads of this process that compute side by side, each with one of torch's."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

import torch

__all__ = ["Threads"]

T = TypeVar("T")
R = TypeVar("R")


class Threads:
    """Some threads that share pieces of work.

    Each piece is computed by one thread alone, with the bits that it has by itself, so the number of threads changes
    the time and nothing else. Torch's own threads divide every operation instead: that changes sums, and waking a
    thread takes longer than most operations of a small model.
    """

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self._pool = ThreadPoolExecutor(count, "gnomon", torch.set_num_threads, (1,)) if count > 1 else None

    def results(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """What becomes of every item, in order. One more than there are threads is begun before its turn."""
        if self._pool is None:
            yield from map(work, items)
            return
        begun: deque[Future[R]] = deque()
        try:
            for item in items:
                if len(begun) > self.count:
                    yield begun.popleft().result()
                begun.append(self._pool.submit(work, item))
            while begun:
                yield begun.popleft().result()
        finally:
            for future in begun:
                future.cancel()
            wait(begun)
