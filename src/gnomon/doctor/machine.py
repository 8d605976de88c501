"""What is wrong with this machine: versions, threads, memory, disk, missing programs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from gnomon.doctor.finding import Finding

__all__ = ["Machine", "faults", "this_machine"]

MEMORY = 2 * 2**30
"""Bytes of memory below which a run with the shipped policy and two workers may be killed."""
DISK = 2**30
"""Bytes of disk below which a run with checkpoints may not fit."""
PROGRAMS = {"bwrap": ("bubblewrap", "environments that run code, and the tools python and terminal")}
"""Programs by the package that holds them, and what needs them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What matters of a machine."""

    python: tuple[int, int]
    unfit: Mapping[str, tuple[str, str]]
    """Libraries with a version that the package does not take: installed (empty for none) and wanted."""
    cores: int
    """Cores that this process may use."""
    threads: int
    """`OMP_NUM_THREADS`; 0 where it is not set."""
    memory: int
    """Bytes that are available; 0 where that is not known."""
    disk: int
    """Bytes that are free where runs are written."""
    programs: frozenset[str]
    """Those of `PROGRAMS` that are there."""


def this_machine(folder: Path) -> Machine:
    """Args: folder: where runs are written."""
    threads = os.environ.get("OMP_NUM_THREADS", "")
    return Machine(
        python=sys.version_info[:2],
        unfit=dict(unfit_libraries()),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        threads=int(threads) if threads.isdecimal() else 0,
        memory=available_memory(),
        disk=shutil.disk_usage(folder).free,
        programs=frozenset(name for name in PROGRAMS if shutil.which(name)),
    )


def unfit_libraries() -> Iterator[tuple[str, tuple[str, str]]]:
    """Required libraries that are missing or of another version."""
    from packaging.requirements import Requirement

    for text in metadata.requires("gnomon") or ():
        requirement = Requirement(text)
        required, trains = (
            requirement.marker is None or requirement.marker.evaluate({"extra": extra}) for extra in ("", "train")
        )
        if not trains:
            continue
        try:
            installed = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            installed = ""
        if not installed and not required:
            continue  # This installation does not train.
        if not installed or not requirement.specifier.contains(installed, prereleases=True):
            yield requirement.name, (installed, str(requirement.specifier))


def available_memory() -> int:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), 0)


def faults(machine: Machine) -> Iterator[Finding]:
    """Everything that is wrong with a machine."""
    if machine.python < (3, 11):
        version = ".".join(map(str, machine.python))
        yield Finding(
            name="machine.python", sentence=f"this is Python {version}, and 3.11 is needed", fix="use Python 3.11"
        )
    for name, (installed, needs_version) in machine.unfit.items():
        yield Finding(
            name="machine.version",
            sentence=f"{name} {installed or 'is not installed'}, and {needs_version} is needed",
            fix=f"pip install '{name}{needs_version}'",
        )
    if machine.threads > machine.cores:
        yield Finding(
            name="machine.threads",
            sentence=f"OMP_NUM_THREADS is {machine.threads}, and this process may use {machine.cores} cores; threads "
            "wait for each other",
            fix=f"export OMP_NUM_THREADS={machine.cores}",
        )
    if 0 < machine.memory < MEMORY:
        yield Finding(
            name="machine.memory",
            sentence=f"{machine.memory / 2**30:.1f} GiB of memory are available, and a run with the shipped policy "
            f"needs {MEMORY / 2**30:.0f}",
            fix="end other programs, or set workers.count=1 workers.memory_mib=512",
        )
    if machine.disk < DISK:
        yield Finding(
            name="machine.disk",
            sentence=f"{machine.disk / 2**30:.1f} GiB are free on the disk of this folder",
            fix="free disk space, or write elsewhere: run=/other/disk/run",
        )
    for name, (package, needs) in PROGRAMS.items():
        if name not in machine.programs:
            fix = f"apt-get install {package}"
            yield Finding(name="machine.program", sentence=f"{name} is not installed; it is needed by {needs}", fix=fix)
