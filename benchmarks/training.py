"""Runs that benchmarks are made of: each a folder, trained once, taken up again where it was cut off."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gnomon.types import Group

__all__ = ["gnomon", "newest", "noted", "played", "trained"]


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


def noted(found: list[dict[str, Any]], one: dict[str, Any], path: Path | None) -> None:
    """Add a result to those found, and to a file with one JSON line for each."""
    found.append(one)
    if path:
        with path.open("a") as file:
            file.write(json.dumps(one) + "\n")


def newest(run: Path) -> Path:
    """Its last checkpoint."""
    return max(path for path in (run / "checkpoints").iterdir() if path.name.isdigit())


def played(
    policy: str, env: Mapping[str, Any], split: str, indices: Sequence[int], rollouts: int, purpose: str, **told: Any
) -> list[Group]:
    """New rollouts of a policy on some tasks of an environment; `told` are further settings of the rollouts."""
    from gnomon.config import Env, Policy, Rollout, RunConfig
    from gnomon.keys import Key
    from gnomon.run.parts import build

    config = RunConfig(env=Env.model_validate(env), policy=Policy(path=policy), rollout=Rollout(**told), threads=1)
    parts = build(config)
    parts.actor.engine.load(parts.learner.publish())
    tasks, key = parts.env.tasks(split), Key(0).at(purpose, split=split)
    found: list[Group] = []
    with closing(parts.actor.workers):
        for start in range(0, len(indices), 64):
            chosen = [(index, tasks[index]) for index in indices[start : start + 64]]
            found += asyncio.run(parts.actor.rollouts(chosen, key, rollouts))
    return found
