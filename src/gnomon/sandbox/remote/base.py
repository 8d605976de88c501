"""Run jobs on machines of others: a script is sent, one line comes back, and it is read as a sandbox's word is.

Each run has a sandbox of its own. Whatever untrusted code does to the script's process there, it can change nothing
but its own values.
"""

from __future__ import annotations

import base64
import importlib
import json
import secrets
import signal
from abc import ABC, abstractmethod
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gnomon.errors import ResourceError
from gnomon.sandbox import run as run_module
from gnomon.sandbox.job import Broken, Err, Exceeded, Finished, Job, Limits, Ok, Outcome, Program, Raised, Value, Work
from gnomon.sandbox.remote import far
from gnomon.sandbox.run import NONCE
from gnomon.sandbox.told import Told, ending, plain, text

__all__ = ["Elsewhere", "Reply", "needed"]

SPARE = 30.0
"""Seconds that a sandbox may take beyond the limit of the run in it."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the script's process elsewhere printed, whatever its status."""

    stdout: str


class Elsewhere(ABC):
    """A runner whose subclass knows how to run one script in a fresh sandbox.

    Args: workers: sandboxes at the same time; limits: `processes` is kept by the provider, if at all; retries: how
        often a run is tried again when the provider failed.
    """

    def __init__(self, workers: int = 4, limits: Limits | None = None, *, retries: int = 2) -> None:
        self.workers, self.limits, self.retries = workers, limits or Limits(), retries

    @abstractmethod
    def execute(self, script: str, timeout: float) -> Reply:
        """Run a Python script in a fresh sandbox without network, and remove it. Args: timeout: seconds.

        Raises: any exception, when the provider failed; `TimeoutError`, when the sandbox ran out of time.
        """

    def map(self, jobs: Iterable[Work]) -> list[Outcome]:
        """One outcome per job, in order, whatever the order they end in."""
        with ThreadPoolExecutor(self.workers) as threads:
            return list(threads.map(self._outcome, list(jobs)))

    def close(self) -> None:  # noqa: B027
        """Nothing is kept between runs."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _outcome(self, work: Work) -> Outcome:
        if isinstance(work, Job):
            return self._run(work, [plain(list(words)) for words in work.inputs], "")
        values: list[Value] = []
        out, err = "", ""
        for stdin in work.stdins:
            outcome = self._run(work, [], stdin)
            if isinstance(outcome, Broken):
                return outcome
            out, err = out + outcome.stdout, err + outcome.stderr
            if isinstance(outcome, Exceeded):
                return Exceeded(resource=outcome.resource, values=tuple(values), stdout=out, stderr=err)
            values += [Err("Forged", outcome.error)] if isinstance(outcome, Raised) else outcome.values
        return Finished(values=tuple(values), stdout=out, stderr=err)

    def _run(self, work: Work, inputs: list[str], stdin: str) -> Outcome:
        """One run, tried again while the provider fails."""
        nonce = secrets.token_bytes(NONCE)
        script = self._script(work, inputs, stdin, nonce)
        timeout = self.limits.wall_seconds * max(1, len(inputs)) + SPARE
        for left in reversed(range(self.retries + 1)):
            try:
                reply = self.execute(script, timeout)
                break
            except TimeoutError:
                return Exceeded(resource="wall")
            except ResourceError:
                raise
            except Exception as error:
                if not left:
                    return Broken(reason=f"{type(self).__name__}: {type(error).__name__}: {error}")
        return self._read(work, reply, len(inputs), nonce)

    def _script(self, work: Work, inputs: list[str], stdin: str, nonce: bytes) -> str:
        runs, limits = max(1, len(inputs)), self.limits
        job = {
            "source": work.source,
            "call": work.call if isinstance(work, Job) else "",
            "inputs": inputs,
            "stdin": stdin,
            "seed": work.seed,
            "nonce": nonce.hex(),
        }
        bounds = {
            "memory": limits.memory_bytes,
            "file": limits.file_bytes,
            "cpu": limits.cpu_seconds * runs,
            "wall": limits.wall_seconds * runs,
            "output": limits.output_bytes + 64 * (runs + 1),
        }
        words = (json.dumps(job), json.dumps(bounds), Path(run_module.__file__).read_text())
        call = ", ".join(f"json.loads({word!r})" for word in words[:2])
        return f"{Path(far.__file__).read_text()}\n\nprint(envelope({call}, {words[2]!r}))\n"

    def _read(self, work: Work, reply: Reply, inputs: int, nonce: bytes) -> Outcome:
        """The outcome that an envelope tells of. What breaks its form is held against the job that ran beside it."""
        try:
            line = json.loads(reply.stdout.strip().splitlines()[-1])
            heard = {name: base64.b64decode(line[name]) for name in ("result", "stdout", "stderr")}
            status, spent = int(line["status"]), str(line["spent"])
        except (ValueError, LookupError, TypeError, RecursionError):
            return Raised(error="Forged: the sandbox did not answer in form")
        told = Told(nonce, self.limits.output_bytes)
        told.feed(heard["result"])
        output: dict[str, Any] = {"stdout": text(heard["stdout"]), "stderr": text(heard["stderr"])}
        values = tuple(told.values[:inputs])
        if told.full or spent in ("output", "wall"):
            return Exceeded(resource="output" if told.full or spent == "output" else "wall", values=values, **output)
        if isinstance(told.last, Exceeded):
            return Exceeded(resource=told.last.resource, values=values, **output)
        if -status in (signal.SIGXCPU, signal.SIGKILL):
            return Exceeded(resource="cpu", values=values, **output)
        ended = told.last or ending(-status if status < 0 else status << 8)
        if isinstance(work, Program):
            return Finished(values=(ended or Ok(output["stdout"]),), **output)
        if told.forged or len(told.values) > inputs:
            return Raised(error=f"Forged: {told.forged or 'more answers than inputs'}", **output)
        if len(values) == inputs and told.last is None:
            return Finished(values=values, **output)
        ended = ended or Err("Exit", f"ended before input {len(values)} was answered")
        return Raised(error=f"{ended.type}: {ended.message}", values=values, **output)


def needed(package: str, extra: str) -> Any:
    """An optional package. Raises: ResourceError, E523, with the line that installs it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ResourceError(
            "E523", f"the package {package} is not installed", why=str(error), fix=f'pip install "gnomon[{extra}]"'
        ) from None


def refused(provider: str, why: str, fix: str) -> ResourceError:
    """The error of a provider that does not know us."""
    return ResourceError("E524", f"{provider} cannot be used", why=why, fix=fix)
