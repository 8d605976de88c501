"""Seconds until held-out pass@1 reaches a level, with and without sampling ahead.

    python benchmarks/overlap.py --save overlap.jsonl                   where verdicts are slow
    python benchmarks/overlap.py --median 0 --workers 2 --steps 30      where all wait for the processor alone

Verdicts on train tasks take a log-normal time with a heavy tail, as in lag.py; those on held-out tasks take none. The
seconds of a step without such waits are measured first. They are all that the simulator gets of this machine. Without
slow verdicts, nothing is simulated. Beside the seconds by the clock stand the processor seconds of the run's process,
which sampling and training share.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lag import Judged, Same, seconds_of

import gnomon
from gnomon.config import Source, resolve
from gnomon.envs.char_count import CharCount
from gnomon.store import EvaluationRecord, RunStatus, StepRecord
from gnomon.training.evaluate import first
from gnomon.types import Task, Verdict
from gnomon_lab.simulation import Load, Speed, simulate
from training import noted

HELD_OUT = 64
EVERY = 2
"""Steps between two evaluations."""
QUICK = frozenset(task.id for _, task in first(CharCount().tasks("test"), HELD_OUT))
"""Ids of the tasks whose verdicts take no time."""


@dataclass(frozen=True, kw_only=True)
class Slow(Judged):
    """Verdicts on train tasks are slow."""

    def verify(self, task: Task, reply: str) -> Verdict:
        return CharCount.verify(self, task, reply) if task.id in QUICK else super().verify(task, reply)


@dataclass
class Clock:
    """An observer that notes when each evaluation ended, in seconds since the run began."""

    mark: Path
    began: float = 0.0
    began_cpu: float = 0.0
    curve: list[tuple[float, float, float]] = field(default_factory=list)
    """Seconds, pass@1, and processor seconds."""

    def start(self, manifest: Mapping[str, Any]) -> None:
        self.mark.touch()
        self.began, self.began_cpu = time.monotonic(), time.process_time()

    def step(self, record: StepRecord) -> None: ...

    def evaluation(self, record: EvaluationRecord) -> None:
        value = record.result["pass_at"]["1"]["value"]
        self.curve.append((time.monotonic() - self.began, value, time.process_time() - self.began_cpu))

    def finish(self, status: RunStatus) -> None: ...


def chosen(lag: int, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    return {
        "steps": options.steps,
        "seed": seed,
        "rollout": {"prompts": 8, "group": 8, "lag": lag},
        "eval": {"tasks": HELD_OUT, "samples": 2, "every": EVERY},
        "workers": {"count": options.workers},
        "objective": "tis",
    }


def run(folder: Path, lag: int, seed: int, median: float, options: argparse.Namespace) -> dict[str, Any]:
    """One run. Returns: its arm, its curve over time, and the mean seconds of a step, evaluations included."""
    clock = Clock(folder.with_suffix(".started"))
    env = Slow(median=median, mark=clock.mark)
    with gnomon.train(env, observers=[clock], run=folder, quiet=True, **chosen(lag, seed, options)) as found:
        seconds = statistics.fmean(timing["seconds"] for timing in found.timings())
    return {"lag": lag, "seed": seed, "curve": clock.curve, "step": seconds}


def simulated(lag: int, seed: int, train: float, options: argparse.Namespace) -> float:
    """Seconds of a step, by `gnomon_lab.simulation`. Args: train: seconds of a step whose verdicts take no time."""
    config, _ = resolve([Source({**chosen(lag, seed, options), "objective": {"type": "tis"}}, {})])
    load = Load(speed=Speed(token=1e-6), reply=14.0, train=train)

    def wait(task: Task, key: object, turn: int) -> float:
        return 0.0 if task.id in QUICK else seconds_of(task, options.median)

    return simulate(config, load, wait, Same()).step_seconds


def reached(curve: Sequence[tuple[float, float, float]], level: float) -> tuple[float, float] | None:
    """Seconds and processor seconds until pass@1 first was at least at the level; None if it never was."""
    return next(((seconds, cpu) for seconds, value, cpu in curve if value >= level), None)


def times(some: Sequence[dict[str, Any]], levels: Sequence[float], form: str) -> str:
    """When each run of an arm reached each level. Args: form: of the seconds and the processor seconds."""
    found = []
    for level in levels:
        at = [reached(each["curve"], level) for each in some]
        found.append(f"{level}: " + ", ".join("never" if each is None else form.format(*each) for each in at))
    return "; ".join(found)


def table(found: Sequence[dict[str, Any]], options: argparse.Namespace) -> Iterator[str]:
    yield "| lag | seconds (processor seconds) to each level, by seed | s per step | simulated | difference |"
    yield "|---|---|---|---|---|"
    for lag in dict.fromkeys(each["lag"] for each in found):
        some = [each for each in found if each["lag"] == lag]
        step = statistics.fmean(each["step"] for each in some)
        ending = "| – | – |"
        if options.median:
            expected = statistics.fmean(each["simulated"] for each in some)
            ending = f"| {expected:.2f} | {expected / step - 1:+.0%} |"
        yield f"| {lag} | {times(some, options.levels, '{:.0f} ({:.0f})')} | {step:.2f} {ending}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--median", type=float, default=1.0, help="seconds of a verdict at its median")
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--lags", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--levels", type=float, nargs="+", default=[0.4, 0.45, 0.5])
    parser.add_argument("--workers", type=int, default=64, help="processes that wait for verdicts")
    parser.add_argument("--save", type=Path, help="add every run to this file")
    options = parser.parse_args()
    print(f"{platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in options.seeds:
            train = 0.0
            if options.median:
                train = run(Path(folder) / f"no-waits-{seed}", 0, seed, 0.0, options)["step"]
                print(f"without waits: {train:.2f} s a step", flush=True)
            for lag in options.lags:
                one = run(Path(folder) / f"{lag}-{seed}", lag, seed, options.median, options)
                if options.median:
                    one["simulated"] = simulated(lag, seed, train, options)
                print(f"lag {lag} seed {seed}: {one['step']:.2f} s a step, load {os.getloadavg()[0]:.1f}", flush=True)
                noted(found, one, options.save)
    print("\n".join(table(found, options)))


if __name__ == "__main__":
    main()
