"""Memory that is used up, as an error for the user."""

from __future__ import annotations

import errno
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from gnomon.errors import ResourceError

__all__ = ["memory_errors"]

WORDS = ("can't allocate memory", "not enough memory", "CUDA out of memory", "could not create a primitive")
"""Of messages without a class of their own, on a CPU: those of torch and, the last, of oneDNN, which has no other."""


@contextmanager
def memory_errors(folder: Path) -> Iterator[None]:
    """Args: folder: of the run. Raises: ResourceError E513 where memory is used up in the body."""
    try:
        yield
    except (MemoryError, RuntimeError, OSError) as error:
        if not used_up(error):
            raise
        path = shlex.quote(str(folder))
        raise ResourceError(
            "E513",
            "the run has used up its memory",
            where=str(folder),
            why=f"{str(error).partition(chr(10))[0] or 'MemoryError'}; all recorded steps are intact",
            fix=f"free memory, then: gnomon resume {path}; if it happens again, start a run with a lower "
            "optim.micro_batch or workers.count, or with policy.activation_checkpointing=true",
        ) from error


def used_up(error: Exception) -> bool:
    """Whether an error says that memory is used up."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return any(words in str(error) for words in WORDS)
