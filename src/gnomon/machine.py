"""What this machine has for a run: cores, memory, a CUDA device. Needs no torch."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

__all__ = ["cores", "has_cuda", "memory"]

CPUS, GROUP, DRIVER = Path("/sys/devices/system/cpu"), Path("/sys/fs/cgroup"), Path("/proc/driver/nvidia/version")


def cores() -> int:
    """Physical cores that this process may use: `OMP_NUM_THREADS` and the quota of a container are limits."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    siblings = {content(CPUS / f"cpu{cpu}/topology/thread_siblings_list") or str(cpu) for cpu in allowed}
    quota, _, period = content(GROUP / "cpu.max").partition(" ")
    limits = [len(siblings)]
    if quota.isdecimal() and period.isdecimal() and int(period):
        limits.append(int(quota) // int(period))
    if (threads := os.environ.get("OMP_NUM_THREADS", "")).isdecimal():
        limits.append(int(threads))
    return max(1, min(limits))


def memory() -> int:
    """Bytes of memory, at most what a container may use; 0 where that is not known."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0
    limit = content(GROUP / "memory.max")
    return min(whole, int(limit)) if limit.isdecimal() else whole


def has_cuda() -> bool:
    """Whether a torch with CUDA finds a driver, and no setting hides the devices."""
    try:
        built = "+cpu" not in metadata.version("torch")
    except metadata.PackageNotFoundError:
        return False
    return built and DRIVER.exists() and os.environ.get("CUDA_VISIBLE_DEVICES", "0") not in ("", "-1")


def content(path: Path) -> str:
    """The text of a file of the system; empty where there is none."""
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
