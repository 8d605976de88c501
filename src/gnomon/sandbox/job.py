"""What a sandbox is asked and what it answers: untrusted source with its inputs, and what became of each.

    Job(source="def solve(x): return x + 1", call="solve", inputs=((1,), (2,)))  →  Finished(values=(Ok(2), Ok(3)))
    Program(source="print(int(input()) + 1)", stdins=("1", "2"))  →  Finished(values=(Ok("2\\n"), Ok("3\\n")))

What is expected of an answer never enters a sandbox: values come out and are compared outside.
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
    """What one job may use. All are above zero."""

    cpu_seconds: float = 2.0
    """Processor time of a process, per input; that of loading the source counts with the first input."""
    wall_seconds: float = 10.0
    """Time by the clock per input, asleep or starved; loading the source counts with the first input."""
    memory_bytes: int = 512 * 2**20
    """Address space of a process; where the host lends control groups, also memory of all processes together."""
    processes: int = 16
    """Processes and threads at the same time, the first one included."""
    file_bytes: int = 16 * 2**20
    """Size of one file, and of all files together."""
    output_bytes: int = 2**20
    """Standard output and standard error together, and, apart from them, the values."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; a limit is above zero")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A function of untrusted source, called with every input in turn, in one fresh process."""

    source: str
    """Python. It is executed once, before the first call, with `__name__` other than `__main__`."""
    call: str
    """The name it must define; a method is written `Solution().solve`."""
    inputs: tuple[tuple[Any, ...], ...]
    """Positional arguments, one tuple per call, of plain JSON values. Each call gets its own copy."""
    seed: int = 0
    """Of the module `random`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A script that reads its standard input and answers on its standard output, in a fresh process per input."""

    source: str
    """Python, executed as `__main__`."""
    stdins: tuple[str, ...]
    seed: int = 0
    """Of the module `random`."""


Work = Job | Program


@dataclass(frozen=True, slots=True)
class Ok:
    """The call returned."""

    json: Any
    """The value as plain JSON: None, bool, int, float (also not finite), str, list, dict with text keys.

    A tuple comes out as a list and a subclass as its plain base, so that nothing in it can decide how it compares.
    For a `Program`, the text of its standard output, with U+FFFD for what is not UTF-8.
    """


@dataclass(frozen=True, slots=True)
class Err:
    """The call raised, or returned what is no JSON value, or the program ended with another status than 0."""

    type: str
    """Name of the exception's class; `Exit` or `Signal` where a program ended by itself."""
    message: str


Value = Ok | Err
Resource = Literal["cpu", "wall", "memory", "processes", "files", "output"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The source loaded and every input was run to an end, good or bad."""

    values: tuple[Value, ...]
    """One per input, in order."""
    stdout: str = ""
    """What it wrote; the program's outputs one after the other. Never evidence of anything."""
    stderr: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """There is no value for some input, by the source's own doing: it did not load, or its process ended early."""

    error: str
    """Type and message."""
    values: tuple[Value, ...] = ()
    """Of the inputs before."""
    stdout: str = ""
    stderr: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exceeded:
    """The job used more than it may and was ended."""

    resource: Resource
    values: tuple[Value, ...] = ()
    """Of the inputs before."""
    stdout: str = ""
    stderr: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """Our own failure, on every try: the job was not judged, and no job can bring this about."""

    reason: str


Outcome = Finished | Raised | Exceeded | Broken


class Runner(Protocol):
    """Somewhere to run untrusted source: a sandbox on this host, a container, a machine elsewhere."""

    def map(self, jobs: Iterable[Work]) -> list[Outcome]:
        """One outcome per job, in order, whatever the order they end in."""
        ...

    def close(self) -> None:
        """End all that still runs."""
        ...
