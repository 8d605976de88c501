"""The execution of one job in a sandbox: its reports, its resource use and its outcome."""

from __future__ import annotations

import os
import secrets
import selectors
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gnomon.repeats import Repeats
from gnomon.sandbox.job import Err, Exceeded, Finished, Job, Limits, Ok, Outcome, Program, Raised, Resource, Value, Work
from gnomon.sandbox.reports import Reports, ending, text
from gnomon.sandbox.run import NONCE, encode
from gnomon.sandbox.worker import SandboxWorker, cpu_clock, whole_seconds

__all__ = ["Execution", "Lost"]


@dataclass(frozen=True, slots=True)
class Lost:
    """The sandbox ended while the job ran."""


class Execution:
    """One job. A `Job` is one run with all inputs; a `Program` is one run per input."""

    def __init__(self, work: Work, index: int, limits: Limits, retries: int = 0) -> None:
        self.work, self.index, self.limits = work, index, limits
        self.repeats = Repeats(retries)
        self.outcome: Outcome | Lost | None = None
        self.clean = False
        """Whether the sandbox can be reused for another job."""
        self.inputs = [encode(list(words)) for words in work.inputs] if isinstance(work, Job) else list(work.stdins)
        if isinstance(work, Program) and any(len(stdin) > limits.file_bytes for stdin in work.stdins):
            raise ValueError(f"a standard input is longer than file_bytes, which is {limits.file_bytes}")
        self.runs = 1 if isinstance(work, Job) else len(self.inputs)

    def begin(self, worker: SandboxWorker, selector: selectors.BaseSelector) -> None:
        """Begin the job in a sandbox that runs no other job."""
        self.worker, self.selector = worker, selector
        self.outcome, self.clean = None, False
        self.values: list[Value] = []
        self.stdout, self.stderr = bytearray(), bytearray()
        self.pipes: dict[str, int] = {}
        self.kills = worker.group.kills()
        self.due = time.monotonic() + self.limits.wall_seconds
        selector.register(worker.control, selectors.EVENT_READ, (self, "control"))
        if self.runs:
            self.start()
        else:
            self.outcome, self.clean = Finished(values=()), True

    def start(self) -> None:
        """Send the next run."""
        nonce = secrets.token_bytes(NONCE)
        self.reports = Reports(nonce, self.limits.output_bytes)
        self.written = {"stdout": bytearray(), "stderr": bytearray()}
        self.clock: int | None = None
        self.mark(0.0)
        theirs = []
        for name in ("result", "stdout", "stderr"):
            mine, other = os.pipe()
            os.set_blocking(mine, False)
            self.pipes[name] = mine
            self.selector.register(mine, selectors.EVENT_READ, (self, name))
            theirs.append(other)
        try:
            self.worker.ask(self.message(nonce), theirs)
        except OSError:
            self.outcome = Lost()
        finally:
            for descriptor in theirs:
                os.close(descriptor)

    def message(self, nonce: bytes) -> dict[str, Any]:
        job = isinstance(self.work, Job)
        return {
            "source": self.work.source,
            "call": self.work.call if isinstance(self.work, Job) else "",
            "inputs": self.inputs if job else [],
            "stdin": "" if job else self.inputs[len(self.values)],
            "seed": self.work.seed,
            "nonce": nonce.hex(),
            "cpu": whole_seconds(self.limits.cpu_seconds * (max(1, len(self.inputs)) if job else 1)),
        }

    def mark(self, used: float) -> None:
        """Start the clocks for the next input."""
        self.began, self.used = time.monotonic(), used
        self.due = self.began + min(self.limits.cpu_seconds, self.limits.wall_seconds)

    def receive(self, name: str) -> None:
        """Process the data that arrived on one channel."""
        if name == "control":
            messages, handles, alive = self.worker.receive()
            for handle in handles:
                self.clock = cpu_clock(handle)
                os.close(handle)
            for message in messages:
                if "status" in message:
                    self.finish(message)
            if not alive and self.outcome is None:
                self.exceed("memory") if self.worker.group.kills() > self.kills else self.lose()
        else:
            before = len(self.reports.values)
            self.read(name)
            if len(self.reports.values) > before:
                self.mark(self.cpu_used() or 0.0)
            if self.reports.full:
                self.exceed("output")

    def read(self, name: str) -> bool:
        """Read once from a pipe. Returns: whether more data may follow."""
        try:
            piece = os.read(self.pipes[name], 2**16)
        except (BlockingIOError, KeyError):
            return False
        if not piece:
            self.shut(name)
        elif name == "result":
            self.reports.feed(piece)
        else:
            self.written[name] += piece
            if sum(map(len, self.written.values())) > self.limits.output_bytes:
                self.reports.full = True
        return bool(piece) and not self.reports.full

    def cpu_used(self) -> float | None:
        """CPU seconds of the job's process; None if it has ended."""
        with suppress(OSError):
            return time.clock_gettime(self.clock) if self.clock is not None else 0.0
        return None

    def check_limits(self, now: float) -> None:
        """End the job if it has exceeded a limit; else set the time of the next check."""
        if now - self.began >= self.limits.wall_seconds:
            return self.exceed("wall")
        rest = self.limits.wall_seconds - (now - self.began)
        used = self.cpu_used()
        if used is not None:
            if used - self.used >= self.limits.cpu_seconds:
                return self.exceed("cpu")
            rest = min(rest, max(self.limits.cpu_seconds - (used - self.used), 0.001))
        self.due = now + rest
        return None

    def finish(self, message: dict[str, Any]) -> None:
        """Evaluate a finished run, and begin the next one if there is one."""
        for name in list(self.pipes):
            while self.read(name):
                pass
            self.shut(name)
        self.clean = not message["left"]
        status, inside = message["status"], self.reports
        if not inside.ready:
            return self.lose()
        if inside.full:
            return self.exceed("output")
        if isinstance(inside.last, Exceeded):
            return self.exceed(inside.last.resource)
        if status & 0x7F in (signal.SIGKILL, signal.SIGXCPU):
            if self.worker.group.kills() > self.kills:
                return self.exceed("memory")
            if message["cpu"] >= self.limits.cpu_seconds:
                return self.exceed("cpu")
        if isinstance(self.work, Job):
            return self.settle(status)
        self.values.append(self.judge(status))
        self.keep()
        if len(self.values) == self.runs:
            self.outcome = Finished(values=tuple(self.values), **self.output())
        elif self.clean:
            self.start()
        else:  # The remaining runs use a new sandbox. This does not count as a retry.
            self.renew()
        return None

    def settle(self, status: int) -> None:
        """Set the outcome of a job whose process ended within its limits."""
        self.keep()
        self.values = list(self.reports.values)
        missing = ending(status) or Err("Exit", "ended with status 0")
        if self.reports.forged or len(self.values) > len(self.inputs):
            error = f"Forged: {self.reports.forged or 'more answers than inputs'}"
            self.values = []
        elif isinstance(self.reports.last, Err):
            error = f"{self.reports.last.type}: {self.reports.last.message}"
        elif len(self.values) < len(self.inputs):
            error = f"{missing.type}: {missing.message} before input {len(self.values)} was answered"
        else:
            self.outcome = Finished(values=tuple(self.values), **self.output())
            return
        self.outcome = Raised(error=error, values=tuple(self.values), **self.output())

    def judge(self, status: int) -> Value:
        """The value of one run of a program: its output if its exit status is 0."""
        failed = ending(status)
        if failed is None:
            return Ok(text(self.written["stdout"]))
        return self.reports.last if isinstance(self.reports.last, Err) else failed

    def renew(self) -> None:
        """Continue with the next run in a new sandbox."""
        self.selector.unregister(self.worker.control)
        self.worker.renew()
        self.kills = self.worker.group.kills()
        self.selector.register(self.worker.control, selectors.EVENT_READ, (self, "control"))
        self.start()

    def keep(self) -> None:
        self.stdout += self.written["stdout"]
        self.stderr += self.written["stderr"]
        self.written = {"stdout": bytearray(), "stderr": bytearray()}

    def output(self) -> dict[str, str]:
        return {"stdout": text(self.stdout), "stderr": text(self.stderr)}

    def exceed(self, resource: Resource) -> None:
        """End the job with `Exceeded`. Its remaining processes end with the sandbox."""
        for name in list(self.pipes):
            while self.read(name):
                pass
        cap = self.limits.output_bytes
        for name, output in self.written.items():
            self.written[name] = output[:cap]
        self.keep()
        values = tuple(self.reports.values[: len(self.inputs)] if isinstance(self.work, Job) else self.values)
        self.outcome, self.clean = Exceeded(resource=resource, values=values, **self.output()), False

    def lose(self) -> None:
        self.outcome, self.clean = Lost(), False

    def shut(self, name: str) -> None:
        if (descriptor := self.pipes.pop(name, None)) is not None:
            self.selector.unregister(descriptor)
            os.close(descriptor)

    def leave(self) -> None:
        """Close all pipes and handles, and return the sandbox to its owner."""
        for name in list(self.pipes):
            self.shut(name)
        with suppress(KeyError, ValueError):
            self.selector.unregister(self.worker.control)
