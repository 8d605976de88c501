"""Seconds per step with and without sampling ahead, where verdicts come after heavy-tailed times.

    python benchmarks/lag.py

Each verdict of training sleeps for a log-normal time, as that of a remote judge would; those of the audit before it do
not. The lags take turns. A step's seconds are the mean over the whole run, evaluations included.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gnomon
from gnomon.envs.char_count import CharCount
from gnomon.store import EvaluationRecord, RunStatus, StepRecord
from gnomon.types import Task


@dataclass(frozen=True, kw_only=True)
class Judged(CharCount):
    """A verdict takes `median` seconds at its median; the tail is that of a log-normal with σ = 1."""

    median: float
    mark: Path
    """Verdicts sleep where this file exists."""

    def check(self, task: Task, answer: str) -> bool:
        if self.mark.exists():
            time.sleep(self.median * random.SystemRandom().lognormvariate(0.0, 1.0))
        return super().check(task, answer)


@dataclass(frozen=True)
class Started:
    """An observer that has verdicts sleep from the run's start on."""

    mark: Path

    def start(self, manifest: Mapping[str, Any]) -> None:
        self.mark.touch()

    def step(self, record: StepRecord) -> None: ...

    def evaluation(self, record: EvaluationRecord) -> None: ...

    def finish(self, status: RunStatus) -> None: ...


def steps(folder: Path, lag: int, median: float, count: int) -> tuple[float, float]:
    """Mean seconds of a step over the whole run, and the final pass@1."""
    mark = folder.with_suffix(".started")
    with gnomon.train(
        Judged(median=median, mark=mark),
        observers=[Started(mark)],
        run=folder,
        quiet=True,
        steps=count,
        rollout={"prompts": 8, "group": 8, "lag": lag},
        eval={"tasks": 8, "every": count},
        workers={"count": 16},
        objective="grpo",
    ) as run:
        seconds = statistics.fmean(timing["seconds"] for timing in run.timings())
        assert run.held_out is not None
        return seconds, run.held_out["pass_at"]["1"]["value"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--median", type=float, default=0.2, help="seconds of a verdict at its median")
    parser.add_argument("--steps", type=int, default=14)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--lags", type=int, nargs="+", default=[0, 1, 2, 4])
    options = parser.parse_args()
    print(f"{platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    found: dict[int, list[float]] = {lag: [] for lag in options.lags}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(options.rounds):
            for lag in options.lags:
                seconds, score = steps(Path(folder) / f"{lag}-{turn}", lag, options.median, options.steps)
                found[lag].append(seconds)
                print(f"lag {lag}  {seconds:.2f} s a step   final pass@1 {score:.2f}", flush=True)
    base = statistics.median(found[options.lags[0]])
    for lag, seconds in found.items():
        print(f"lag {lag}  {statistics.median(seconds):.2f} s   {base / statistics.median(seconds):.2f} x")


if __name__ == "__main__":
    main()
