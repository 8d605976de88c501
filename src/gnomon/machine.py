"""What this machine has for a run: memory, a CUDA device. Needs no torch."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

__all__ = ["has_cuda", "memory"]

LIMIT, DRIVER = Path("/sys/fs/cgroup/memory.max"), Path("/proc/driver/nvidia/version")


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
