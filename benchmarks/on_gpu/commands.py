"""Commands of `gnomon`, run by parts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gnomon.store import RunReader

__all__ = ["gnomon", "step_seconds"]


def gnomon(*words: str) -> str:
    """What a command writes to its output. Raises: RuntimeError with its end if it fails."""
    done = subprocess.run([sys.executable, "-m", "gnomon", *words], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"gnomon {' '.join(words)}\n{done.stdout[-1500:]}{done.stderr[-3000:]}")
    return done.stdout


def step_seconds(run: Path) -> list[float]:
    """Seconds of the steps of a run, without the first."""
    with RunReader(run) as reader:
        return [row["seconds"] for row in reader.timings()][1:]
