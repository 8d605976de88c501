"""Run jobs with a provider: send a script, read one line, and parse it like the reports of a sandbox.

Each run has its own sandbox. Untrusted code that attacks the script's process can only change its own values.
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
from gnomon.repeats import Repeats
from gnomon.sandbox import run as run_module
from gnomon.sandbox.job import Broken, Err, Exceeded, Finished, Job, Limits, Ok, Outcome, Program, Raised, Value, Work
from gnomon.sandbox.remote import far
from gnomon.sandbox.reports import Reports, ending, text
from gnomon.sandbox.run import NONCE, encode

__all__ = ["Elsewhere", "Reply", "import_package"]

SPARE = 30.0
"""Seconds that a remote sandbox may take beyond the limit of its run."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The output of the remote script, for any exit status."""

    stdout: str


class Elsewhere(ABC):
    """Base class of remote runners. A subclass runs one script in a new sandbox.

    Args: workers: number of concurrent sandboxes; limits: only the provider can enforce `processes`; retries: number
        of retries of a run after a failure of the provider.
    """

    def __init__(self, workers: int = 4, limits: Limits | None = None, *, retries: int = 2) -> None:
        self.workers, self.limits, self.retries = workers, limits or Limits(), retries

    @abstractmethod
    def execute(self, script: str, timeout: float) -> Reply:
        """Run a Python script in a new sandbox without network, and remove the sandbox. Args: timeout: seconds.

        Raises: TimeoutError if the sandbox ran out of time; any other exception if the provider failed.
        """

    def map(self, jobs: Iterable[Work]) -> list[Outcome]:
        """One outcome per job, in the order of the jobs."""
        with ThreadPoolExecutor(self.workers) as threads:
            return list(threads.map(self._outcome, list(jobs)))

    def close(self) -> None:  # noqa: B027
        """Does nothing: no state is kept between runs."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _outcome(self, work: Work) -> Outcome:
        if isinstance(work, Job):
            return self._run(work, [encode(list(words)) for words in work.inputs], "")
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
        """One run, retried after failures of the provider."""
        nonce = secrets.token_bytes(NONCE)
        script = self._script(work, inputs, stdin, nonce)
        timeout = self.limits.wall_seconds * max(1, len(inputs)) + SPARE
        repeats = Repeats(self.retries)
        while True:
            try:
                reply = self.execute(script, timeout)
                break
            except TimeoutError:
                return Exceeded(resource="wall")
            except ResourceError:
                raise
            except Exception as error:
                if not repeats.another():
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
        words = (json.dumps(job), json.dumps(bounds), Path(run_module.__file__).read_text(encoding="utf-8"))
        call = ", ".join(f"json.loads({word!r})" for word in words[:2])
        return f"{Path(far.__file__).read_text(encoding='utf-8')}\n\nprint(envelope({call}, {words[2]!r}))\n"

    def _read(self, work: Work, reply: Reply, inputs: int, nonce: bytes) -> Outcome:
        """The outcome in a reply. A malformed reply counts as a failure of the job."""
        try:
            line = json.loads(reply.stdout.strip().splitlines()[-1])
            received = {name: base64.b64decode(line[name]) for name in ("result", "stdout", "stderr")}
            status, limit = int(line["status"]), str(line["spent"])
        except (ValueError, LookupError, TypeError, RecursionError):
            return Raised(error="Forged: the reply of the sandbox is malformed")
        reports = Reports(nonce, self.limits.output_bytes)
        reports.feed(received["result"])
        output: dict[str, Any] = {"stdout": text(received["stdout"]), "stderr": text(received["stderr"])}
        values = tuple(reports.values[:inputs])
        if reports.full or limit in ("output", "wall"):
            return Exceeded(resource="output" if reports.full or limit == "output" else "wall", values=values, **output)
        if isinstance(reports.last, Exceeded):
            return Exceeded(resource=reports.last.resource, values=values, **output)
        if -status in (signal.SIGXCPU, signal.SIGKILL):
            return Exceeded(resource="cpu", values=values, **output)
        failed = ending(-status if status < 0 else status << 8)
        ended = reports.last or failed
        if isinstance(work, Program):
            return Finished(values=(ended if failed and ended else Ok(output["stdout"]),), **output)
        if reports.forged or len(reports.values) > inputs:
            return Raised(error=f"Forged: {reports.forged or 'more answers than inputs'}", **output)
        if len(values) == inputs and reports.last is None:
            return Finished(values=values, **output)
        ended = ended or Err("Exit", f"ended before input {len(values)} was answered")
        return Raised(error=f"{ended.type}: {ended.message}", values=values, **output)


def import_package(package: str, extra: str) -> Any:
    """Import an optional package. Raises: ResourceError E523, with the install command."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ResourceError(
            "E523", f"the package {package} is not installed", why=str(error), fix=f'pip install "gnomon[{extra}]"'
        ) from None


def refusal(provider: str, why: str, fix: str) -> ResourceError:
    """The error for a provider that refuses the credentials."""
    return ResourceError("E524", f"{provider} cannot be used", why=why, fix=fix)
