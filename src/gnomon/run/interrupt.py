"""Ctrl-C: the first ends a run after the present step, saved, or a log that is followed; the second ends it now."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from gnomon.training import Recorder

__all__ = ["Stop", "gentle_interrupt", "interrupt_at_once", "stop_asked", "stop_on_interrupt"]

NOTICE = b"\nStopping after this step. Once more to stop now; gnomon resume goes on from the last checkpoint.\n"


@contextmanager
def gentle_interrupt(recorder: Recorder) -> Iterator[None]:
    """Within it, the first SIGINT or SIGTERM lets the run end after this step; the second raises KeyboardInterrupt."""

    def handler(number: int, frame: FrameType | None) -> None:
        if recorder.stop:
            raise KeyboardInterrupt
        recorder.stop = True
        with suppress(OSError):  # Nobody reads it.
            os.write(2, NOTICE)

    with handle_signals(handler):
        yield


class Stop:
    """Whether to stop. No lock is taken, so a signal may set it at any moment."""

    def __init__(self) -> None:
        self.asked = False


EVER = Stop()


def stop_asked() -> bool:
    """Whether a SIGINT or SIGTERM was handled here since this process began: a run of it may have ended early."""
    return EVER.asked


@contextmanager
def stop_on_interrupt() -> Iterator[Stop]:
    """What the first SIGINT or SIGTERM sets; the second raises KeyboardInterrupt."""
    stop = Stop()

    def handler(number: int, frame: FrameType | None) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True

    with handle_signals(handler):
        yield stop


@contextmanager
def interrupt_at_once() -> Iterator[None]:
    """Within it, SIGTERM raises KeyboardInterrupt, as SIGINT does."""

    def handler(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with handle_signals(handler):
        yield


@contextmanager
def handle_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Signals reach the main thread only: in any other thread this changes nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def note(number: int, frame: FrameType | None) -> None:
        EVER.asked = True
        handler(number, frame)

    old = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, was in old.items():
            signal.signal(number, was)
