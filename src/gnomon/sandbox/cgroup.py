"""Control groups, version 1 or 2, if the host permits: limits on memory and processes of a whole sandbox.

A group is a child of this process's own group, so that the limits of that group still apply.
Source: Linux, Documentation/admin-guide/cgroup-v1/memory.rst, pids.rst and cgroup-v2.rst.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Self

__all__ = ["Group"]

NUMBERS = count()
FILES = {
    (1, "memory"): "memory.limit_in_bytes",
    (2, "memory"): "memory.max",
    (1, "pids"): "pids.max",
    (2, "pids"): "pids.max",
}
KILLS = {1: "memory.oom_control", 2: "memory.events"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The control groups of one sandbox: none, one for both controllers, or one for each."""

    folders: dict[str, tuple[int, Path]]
    """For `memory` and `pids`, if available: the version of the hierarchy and the folder in it."""

    @classmethod
    def open(cls, memory: int, processes: int) -> Self:
        """Create the available groups. Args: memory: bytes; processes: tasks, including threads."""
        folders: dict[str, tuple[int, Path]] = {}
        name = f"gnomon-{os.getpid()}-{next(NUMBERS)}"
        for controller, value in (("memory", memory), ("pids", processes)):
            for version, parent in places(controller):
                sweep(parent)
                folder = parent / name
                with suppress(OSError):
                    folder.mkdir(exist_ok=True)
                    try:
                        (folder / FILES[version, controller]).write_text(str(value), "utf-8")
                        folders[controller] = version, folder
                        break
                    except OSError:
                        if folder not in [used for _, used in folders.values()]:
                            folder.rmdir()
        return cls(folders=folders)

    @property
    def doors(self) -> list[str]:
        """Files to write a process id into."""
        return sorted({str(folder / "cgroup.procs") for _, folder in self.folders.values()})

    def kills(self) -> int:
        """Number of processes that the memory limit has killed so far."""
        if "memory" not in self.folders:
            return 0
        version, folder = self.folders["memory"]
        with suppress(OSError):
            for line in (folder / KILLS[version]).read_text("utf-8").splitlines():
                name, _, value = line.partition(" ")
                if name == "oom_kill":
                    return int(value)
        return 0

    def close(self) -> None:
        """Remove the groups. Their processes have ended or are ending."""
        for _, folder in self.folders.values():
            for _ in range(200):
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.005)
                else:
                    break


def sweep(parent: Path) -> None:
    """Remove groups whose owners were killed. The kernel does not remove groups in use."""
    for folder in parent.glob("gnomon-*"):
        if not Path("/proc", folder.name.split("-")[1]).exists():
            with suppress(OSError):
                folder.rmdir()


def places(controller: str) -> list[tuple[int, Path]]:
    """The groups of this process in the hierarchies that may have a controller: version and folder."""
    groups = []
    with suppress(OSError):
        standing = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()]
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
        for _, mount, kind, options, *_ in mounts:
            for _, names, path in standing:
                version = {"cgroup": 1, "cgroup2": 2}.get(kind)
                if version == 1 and controller in names.split(",") and controller in options.split(","):
                    groups.append((1, Path(mount + path)))
                if version == 2 and not names:
                    groups.append((2, Path(mount + path)))
    return [(version, folder) for version, folder in groups if folder.is_dir()]
