"""How much memory this process has needed so far."""

from __future__ import annotations

import resource
import sys

import torch

__all__ = ["peak_memory"]

UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes of the unit in which the system reports resident memory."""


def peak_memory() -> int:
    """Largest memory of this process so far, in bytes: of the CUDA devices where they are used, or else resident."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return sum(torch.cuda.max_memory_reserved(place) for place in range(torch.cuda.device_count()))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT
