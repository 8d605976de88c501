"""A worker in a process group of its own, as its engine sees it: calls that are answered, or fail when it ends."""

from __future__ import annotations

import itertools
import os
import select
import signal
import socket
import subprocess
import threading
from array import array
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from gnomon.engines.vllm.frames import Arrays, Message, receive, send

__all__ = ["Gone", "Refused", "WorkerProcess"]

Answer = tuple[Message, Arrays]
POLL_SECONDS = 0.2
"""Seconds between two checks for a worker that hangs."""
END = 5.0
"""Seconds that a worker has to end by itself."""
SHOWN = 12
"""Lines at the end of the log that an error shows."""


class Gone(Exception):
    """The worker has ended, or was ended since it did not answer."""


class Refused(Exception):
    """The worker goes on, and could not do what was asked."""


class WorkerProcess:
    """Starts a worker. Its output goes to a file, and it receives no signal of the terminal.

    Args:
        command: program and arguments; the descriptor of the channel is added.
        log: the file for its output.
        patience: seconds without any answer after which a worker that has work counts as hung.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path, patience: float) -> None:
        self.log, self.patience, self.why = log, patience, ""
        self._calls: dict[int, Future[Answer]] = {}
        self._numbers, self._changing, self._answered = itertools.count(1), threading.Lock(), monotonic()
        self.hello: Future[Answer] = Future()
        self._calls[0] = self.hello
        self._channel, theirs = socket.socketpair()
        with theirs, open(log, "ab") as output:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
        self._ended, self._ending = False, threading.Lock()
        threading.Thread(target=self._read, name="engine worker", daemon=True).start()

    @property
    def pid(self) -> int:
        """Also the number of its process group."""
        return self._process.pid

    def begin(self, message: Message, **arrays: array[Any]) -> Future[Answer]:
        """Ask for something. Returns: what will hold the answer, or raise Gone or Refused."""
        answer: Future[Answer] = Future()
        with self._changing:
            if self.why:
                answer.set_exception(Gone(self.why))
                return answer
            number = next(self._numbers)
            if not self._calls:
                self._answered = monotonic()
            self._calls[number] = answer
            with suppress(OSError):  # The reading thread finds out that it is gone.
                send(self._channel, {**message, "id": number}, arrays)
        answer.add_done_callback(lambda done: self._drop(number) if done.cancelled() else None)
        return answer

    def _drop(self, number: int) -> None:
        """Nobody waits for this answer any more."""
        with self._changing:
            self._calls.pop(number, None)
            with suppress(OSError):
                send(self._channel, {"do": "drop", "id": 0, "of": number})

    def _read(self) -> None:
        """Give out answers until the worker ends."""
        watch = select.poll()
        watch.register(self._channel, select.POLLIN)
        why = "its process ended"
        try:
            while True:
                if watch.poll(POLL_SECONDS * 1000):
                    self._give(*receive(self._channel))
                elif self._calls and monotonic() - self._answered > self.patience:
                    why = f"it answered nothing for {self.patience:g} seconds"
                    break
        except (EOFError, OSError, ValueError):
            pass
        self.kill()
        with self._changing:
            self.why = f"{why} (exit status {self._process.poll()})"
            answers = list(self._calls.values())
            self._calls.clear()
        for answer in answers:
            if answer.set_running_or_notify_cancel():
                answer.set_exception(Gone(self.why))

    def _give(self, message: Message, arrays: Arrays) -> None:
        with self._changing:
            answer, self._answered = self._calls.pop(message["id"], None), monotonic()
        if answer is None or not answer.set_running_or_notify_cancel():
            return
        if "error" in message:
            answer.set_exception(Refused(message["error"]))
        else:
            answer.set_result((message, arrays))

    def close(self) -> None:
        """Ask the worker to end, and end its process group after some seconds."""
        with self._changing, suppress(OSError):
            send(self._channel, {"do": "close", "id": 0})
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END)
        self.kill()

    def kill(self) -> None:
        """End the worker and all that it started."""
        with self._ending:
            if self._ended:
                return
            self._ended = True
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(END)

    def output(self) -> str:
        """All that it has written."""
        with suppress(OSError):
            return self.log.read_text("utf-8", "replace")
        return ""

    def tail(self) -> str:
        """The last lines of its output."""
        return "\n".join(self.output().strip().splitlines()[-SHOWN:])
