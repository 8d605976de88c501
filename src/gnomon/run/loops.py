"""Run a coroutine to its end from ordinary code, also inside a notebook, where an event loop runs already."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

__all__ = ["run_to_end"]

T = TypeVar("T")


def run_to_end(work: Coroutine[object, object, T]) -> T:
    """The result of a coroutine. Where the calling thread runs an event loop, it runs in a thread of its own.

    The caller waits either way. An interrupt of the caller cancels the coroutine, waits for its end and is raised.
    """
    return beside(work) if runs_a_loop() else asyncio.run(work)


def runs_a_loop() -> bool:
    """Whether the calling thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def beside(work: Coroutine[object, object, T]) -> T:
    """The result of a coroutine that runs in a thread of its own, with the caller's number of torch's threads."""
    threads, running = torch.get_num_threads(), list[tuple[asyncio.AbstractEventLoop, asyncio.Task[object]]]()

    async def note() -> T:
        task = asyncio.current_task()
        assert task is not None
        running.append((asyncio.get_running_loop(), task))
        return await work

    def body() -> T:
        torch.set_num_threads(threads)
        return asyncio.run(note())

    with ThreadPoolExecutor(1, "gnomon") as thread:
        result = thread.submit(contextvars.copy_context().run, body)
        try:
            return result.result()
        except BaseException:
            for loop, task in running:
                if not result.done():
                    loop.call_soon_threadsafe(task.cancel)
            raise
