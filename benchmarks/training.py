"""Runs that benchmarks are made of: each a folder, trained once, taken up again where it was cut off."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["gnomon", "newest", "trained"]


def gnomon(*words: str) -> str:
    """What a command prints; one that fails ends the benchmark with what it said."""
    command = [sys.executable, "-m", "gnomon", *words]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    if done.returncode:
        raise SystemExit(f"{' '.join(command)[:500]}\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
    return done.stdout


def trained(run: Path, env: str, words: list[str]) -> Path:
    """A run, trained now unless it is finished."""
    if (run / "recipe.toml").exists():
        gnomon("resume", str(run))
    else:
        gnomon("train", env, f"run={run}", *words)
    return run


def newest(run: Path) -> Path:
    """Its last checkpoint."""
    return max(path for path in (run / "checkpoints").iterdir() if path.name.isdigit())
