"""How many runs of a study fit the free memory of this host and of the control group that the study is in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic

__all__ = ["Room", "fitting", "free_memory", "memory_of"]

UNLIMITED = 2**60
"""A limit of this many bytes or more is none."""


def memory_of(process: int, proc: Path = Path("/proc")) -> int:
    """Bytes of memory that a process and its descendants hold now: the sum of their proportional set sizes.

    Pages that several processes share count once. Where the kernel does not tell, resident pages are counted whole.
    0 for a process that has ended.
    """
    children: dict[int, list[int]] = {}
    for folder in proc.iterdir():
        if folder.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                parent = int((folder / "stat").read_text("utf-8").rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(folder.name))
    total, waiting = 0, [process]
    while waiting:
        one = waiting.pop()
        waiting += children.get(one, [])
        total += used_memory(proc / str(one))
    return total


def used_memory(folder: Path) -> int:
    for name, field in (("smaps_rollup", "Pss"), ("status", "VmRSS")):
        with suppress(OSError, ValueError, StopIteration):
            lines = (folder / name).read_text("utf-8").splitlines()
            return 1024 * int(next(line for line in lines if line.startswith(f"{field}:")).split()[1])
    return 0


def free_memory(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes that can still be allocated: the least of the host's and of every limit of a control group above.

    Memory of file caches counts as free. None where the kernel does not tell.
    """
    found = [*host(proc), *(limit for limit in free_in_groups(proc, groups))]
    return max(0, min(found)) if found else None


def host(proc: Path) -> Iterator[int]:
    with suppress(OSError, ValueError, StopIteration):
        lines = (proc / "meminfo").read_text("utf-8").splitlines()
        yield 1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1])


def free_in_groups(proc: Path, groups: Path) -> Iterator[int]:
    """What each group between this process and the root of its hierarchy leaves free."""
    with suppress(OSError):
        for line in (proc / "self/cgroup").read_text("utf-8").splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0":
                root, names = groups, ("memory.max", "memory.current", "inactive_file")
            elif "memory" in controllers.split(","):
                root, names = groups / "memory", (
                    "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
                )  # fmt: skip
            else:
                continue
            own = root / path.strip("/")
            # In a container, the path may be that of the host: its own group is then the root.
            for folder in [own, *own.parents]:
                if folder == root or root in folder.parents:
                    yield from free_bytes(folder, *names)


def free_bytes(folder: Path, limit: str, used: str, cache: str) -> Iterator[int]:
    with suppress(OSError, ValueError):
        most = int((folder / limit).read_text("utf-8"))  # "max" is no number.
        if most < UNLIMITED:
            kept = dict(line.split() for line in (folder / "memory.stat").read_text("utf-8").splitlines())
            yield most - int((folder / used).read_text("utf-8")) + int(kept.get(cache, 0))


def fitting(jobs: int, largest: int, holding: int, free: int | None) -> int:
    """How many runs of a size fit together: at least one, and `jobs` at most.

    Args: largest: peak of one run, in bytes, 0 if none was measured; holding: bytes that the runs in progress hold;
        free: bytes that are free beside them, None if unknown.
    """
    return jobs if free is None or not largest else max(1, min(jobs, (free + holding) // largest))


class Room:
    """Measures the runs in progress, and lowers the number of runs at a time to what fits the free memory.

    The first run is alone until it ends, but for at most `alone` seconds: no other one starts before its peak is known.
    A run that grows later than that lowers the number for the runs after it.

    Args: jobs: largest number of runs at a time; free: bytes that can still be allocated, None if unknown; measure: the
        bytes that a process holds; tell: called with one line whenever the number is lowered.
    """

    EVERY = 0.5
    """Seconds between two measurements."""

    def __init__(
        self,
        jobs: int,
        tell: Callable[[str], object],
        *,
        free: Callable[[], int | None] = free_memory,
        measure: Callable[[int], int] = memory_of,
        alone: float = 60.0,
    ) -> None:
        self.most = self.jobs = jobs
        self.peak, self.free, self.measure, self.tell, self.alone = 0, free, measure, tell, alone
        self.began: float | None = None
        self.ended = False

    def at_once(self, running: Sequence[int]) -> int:
        """Number of runs that may be in progress together. Args: running: process ids of those that are."""
        if self.most == 1:
            return 1
        held = [self.measure(process) for process in running]
        self.peak = max([self.peak, *held])
        if not self.ended:
            self.began = self.began or monotonic()
            self.ended = monotonic() - self.began >= self.alone
            if not self.ended:
                return 1
        free = self.free()
        fits = fitting(self.jobs, self.peak, sum(held), free)
        if fits < self.jobs and free is not None:
            self.jobs = fits
            self.tell(
                f"{fits} at a time instead of {self.most}: a run takes {self.peak / 2**20:.0f} MiB, and "
                f"{(free + sum(held)) / 2**20:.0f} MiB are free"
            )
        return self.jobs

    def first_ended(self) -> None:
        """A run has ended, so its peak is known."""
        self.ended = True
