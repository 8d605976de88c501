"""Jobs for a sandbox, and their outcomes: untrusted source with inputs, and the result of each.

    Job(source="def solve(x): return x + 1", call="solve", inputs=((1,), (2,)))  →  Finished(values=(Ok(2), Ok(3)))
    Program(source="print(int(input()) + 1)", stdins=("1", "2"))  →  Finished(values=(Ok("2\\n"), Ok("3\\n")))

Expected values never enter a sandbox. Results are compared outside.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

__all__ = [
    "Broken",
    "Err",
    "Exceeded",
    "Finished",
    "Job",
    "Limits",
    "Ok",
    "Outcome",
    "Program",
    "Raised",
    "Resource",
    "Runner",
    "Value",
    "Work",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The resource limits of one job. All are positive."""

    cpu_seconds: float = 2.0
    """CPU seconds of a process, per input. Loading the source counts with the first input."""
    wall_seconds: float = 10.0
    """Wall-clock seconds per input. Loading the source counts with the first input."""
    memory_bytes: int = 512 * 2**20
    """Address space of a process. With control groups, also the memory of all processes together."""
    processes: int = 16
    """Processes and threads at the same time, the first one included."""
    file_bytes: int = 16 * 2**20
    """Size of one file, and of all files together."""
    output_bytes: int = 2**20
    """Limit of standard output and error together. The values have a separate limit of the same size."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; a limit must be positive")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A function in untrusted source, called with every input in turn, in one new process."""

    source: str
    """Python source. It is executed once before the first call; `__name__` is not `__main__`."""
    call: str
    """The name of the function; a method is written `Solution().solve`."""
    inputs: tuple[tuple[Any, ...], ...]
    """Positional arguments as JSON values, one tuple per call. Each call gets its own copy."""
    seed: int = 0
    """Seed of the module `random`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A script that reads standard input and writes standard output, in a new process per input."""

    source: str
    """Python source, executed as `__main__`."""
    stdins: tuple[str, ...]
    seed: int = 0
    """Seed of the module `random`."""


Work = Job | Program


@dataclass(frozen=True, slots=True)
class Ok:
    """The call returned."""

    json: Any
    """The value as plain JSON: None, bool, int, float (also not finite), str, list, dict with text keys.

    A tuple becomes a list and a subclass its plain base type, so that the value cannot define its own comparison.
    For a `Program`, the text of its standard output, with U+FFFD for bytes that are not UTF-8.
    """


@dataclass(frozen=True, slots=True)
class Err:
    """The call raised or did not return a JSON value, or the program ended with a non-zero status."""

    type: str
    """Name of the exception's class, never empty; `Exit` or `Signal` if the process ended by itself."""
    message: str


Value = Ok | Err
Resource = Literal["cpu", "wall", "memory", "processes", "files", "output"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The source loaded, and every input has a result or an error."""

    values: tuple[Value, ...]
    """One per input, in order."""
    stdout: str = ""
    """Its standard output, for programs concatenated over inputs. For display only; it is not trusted."""
    stderr: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """The source failed: it did not load, or its process ended early, so some inputs have no value."""

    error: str
    """Type and message."""
    values: tuple[Value, ...] = ()
    """Values of the inputs before the failure."""
    stdout: str = ""
    stderr: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exceeded:
    """The job exceeded a limit and was killed."""

    resource: Resource
    values: tuple[Value, ...] = ()
    """Values of the inputs before the failure."""
    stdout: str = ""
    stderr: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The sandbox failed on every try. The job has no result, and a job cannot cause this."""

    reason: str


Outcome = Finished | Raised | Exceeded | Broken


class Runner(Protocol):
    """Runs untrusted source: a sandbox on this host, a container, or a remote machine."""

    def map(self, jobs: Iterable[Work]) -> list[Outcome]:
        """One outcome per job, in the order of the jobs."""
        ...

    def close(self) -> None:
        """End all running jobs."""
        ...
