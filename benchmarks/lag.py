"""Seconds per step with and without sampling ahead, measured and simulated, where verdicts take heavy-tailed times.

    python benchmarks/lag.py
    python benchmarks/lag.py --samplers 2

Each verdict of training sleeps for a log-normal time, as that of a remote judge would; those of the audit before it do
not. The time depends on the task alone, so it is the same in every run. The arms take turns. A step's seconds are the
mean over the whole run, without evaluations. With `--samplers`, the episodes are played by so many samplers in a Ray
cluster on this machine, which share the processes that wait for verdicts.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gnomon
from gnomon.config import Source, resolve
from gnomon.envs.char_count import CharCount
from gnomon.store import EvaluationRecord, RunStatus, StepRecord
from gnomon.training.evaluate import first
from gnomon.types import Task, Verdict
from gnomon_lab.simulation import Load, Speed, simulate
from gnomon_lab.simulation.environment import Waiting


@dataclass(frozen=True, kw_only=True)
class Judged(CharCount):
    """A verdict takes `median` seconds at its median; the tail is that of a log-normal with σ = 1."""

    median: float
    mark: Path
    """Verdicts sleep where this file exists."""

    def verify(self, task: Task, reply: str) -> Verdict:
        if self.mark.exists():
            time.sleep(seconds_of(task, self.median))
        return super().verify(task, reply)


def seconds_of(task: Task, median: float) -> float:
    """How long a verdict on this task takes."""
    return median * random.Random(task.id).lognormvariate(0.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class Same(Waiting):
    """The tasks of the measured runs, for the simulated ones."""

    def tasks(self, split: str) -> Sequence[Task]:
        return Judged(median=0.0, mark=Path()).tasks(split)


@dataclass(frozen=True)
class Arm:
    lag: int
    in_flight: bool = False

    def __str__(self) -> str:
        return f"lag {self.lag} {'in flight' if self.in_flight else '':9}"


@dataclass(frozen=True)
class Started:
    """An observer that has verdicts sleep from the run's start on."""

    mark: Path

    def start(self, manifest: Mapping[str, Any]) -> None:
        self.mark.touch()

    def step(self, record: StepRecord) -> None: ...

    def evaluation(self, record: EvaluationRecord) -> None: ...

    def finish(self, status: RunStatus) -> None: ...


def chosen(arm: Arm, options: argparse.Namespace) -> dict[str, Any]:
    """The settings of an arm."""
    return {
        "steps": options.steps,
        "rollout": {"prompts": 8, "group": 8, "lag": arm.lag, "in_flight": arm.in_flight},
        "eval": {"tasks": 8, "every": options.steps},
        "workers": {"count": options.workers},
        "objective": "tis",
    }


def placed(options: argparse.Namespace) -> dict[str, Any]:
    """Settings that say where a run samples."""
    if not options.samplers:
        return {}
    each = options.workers // options.samplers
    return {"launch": {"type": "ray", "samplers": options.samplers}, "workers": {"count": each}}


def steps(folder: Path, arm: Arm, options: argparse.Namespace) -> float:
    """Mean seconds of a step over the whole run, without evaluations."""
    mark = folder.with_suffix(".started")
    env, observers = Judged(median=options.median, mark=mark), [Started(mark)]
    settings = {**chosen(arm, options), **placed(options)}
    with gnomon.train(env, observers=observers, run=folder, quiet=True, **settings) as run:
        return statistics.fmean(timing["training"] for timing in run.timings())


def simulated(arm: Arm, options: argparse.Namespace) -> float:
    """The same, by `gnomon_lab.simulation`, with an update and a token as long as this machine needs for them."""
    settings = {**chosen(arm, options), **placed(options), "objective": {"type": "tis"}}
    config, _ = resolve([Source(settings, {})])
    load = Load(speed=Speed(token=options.token), reply=14.0, train=options.train)
    found = simulate(config, load, lambda task, key, turn: seconds_of(task, options.median), Same())
    held_out = max(seconds_of(task, options.median) for _, task in first(Same().tasks("test"), 8))
    return found.step_seconds - 2 * held_out / options.steps  # There is an evaluation before the steps and one after.


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--median", type=float, default=1.0, help="seconds of a verdict at its median")
    parser.add_argument("--steps", type=int, default=14)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--token", type=float, default=0.005, help="seconds of a token of all rows, for the simulation")
    parser.add_argument("--train", type=float, default=0.3, help="seconds of an update, for the simulation")
    parser.add_argument("--workers", type=int, default=64, help="processes that wait for verdicts")
    parser.add_argument("--samplers", type=int, default=0, help="of a Ray cluster; 0 samples in the process of the run")
    parser.add_argument("--lags", type=int, nargs="+", default=[0, 1, 2, 4])
    options = parser.parse_args()
    print(f"{platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    in_flight = [] if options.samplers else [Arm(lag, in_flight=True) for lag in options.lags if lag]
    arms = [Arm(lag) for lag in options.lags] + in_flight
    found: dict[Arm, list[float]] = {arm: [] for arm in arms}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(options.rounds):
            for place, arm in enumerate(arms):
                found[arm].append(steps(Path(folder) / f"{place}-{turn}", arm, options))
                print(f"{arm}  {found[arm][-1]:.2f} s a step", flush=True)
    base = statistics.median(found[arms[0]])
    print("                 measured        gain   simulated")
    for arm, all_seconds in found.items():
        seconds, predicted = statistics.median(all_seconds), simulated(arm, options)
        print(
            f"{arm}  {seconds:6.2f} s   {base / seconds:6.2f} x   {predicted:6.2f} s   {predicted / seconds - 1:+.0%}"
        )


if __name__ == "__main__":
    main()
