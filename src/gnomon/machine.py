"""What this machine has for a run: memory, a CUDA device. Needs no torch."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

__all__ = ["cores", "has_cuda", "memory"]

LIMIT, DRIVER = Path("/sys/fs/cgroup/memory.max"), Path("/proc/driver/nvidia/version")
QUOTA, CPUS = Path("/sys/fs/cgroup/cpu.max"), Path("/sys/devices/system/cpu")


def cores() -> int:
    """Physical cores that this process may use: by its affinity, a container's quota and `OMP_NUM_THREADS`."""
    ids = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    count = len({content(CPUS / f"cpu{number}/topology/thread_siblings_list") or str(number) for number in ids})
    quota, _, period = content(QUOTA).partition(" ")
    if quota.isdecimal() and period.isdecimal():
        count = min(count, int(quota) // int(period))
    setting = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(count, int(setting)) if setting.isdecimal() else count)


def memory() -> int:
    """Bytes of memory, at most what a container may use; 0 where that is not known."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0
    limit = content(LIMIT)
    return min(whole, int(limit)) if limit.isdecimal() else whole


def has_cuda() -> bool:
    """Whether a torch with CUDA finds a driver, and no setting hides the devices."""
    try:
        with_cuda = "+cpu" not in metadata.version("torch")
    except metadata.PackageNotFoundError:
        return False
    return with_cuda and DRIVER.exists() and os.environ.get("CUDA_VISIBLE_DEVICES", "0") not in ("", "-1")


def content(path: Path) -> str:
    """The text of a file of the system; empty where there is none."""
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
