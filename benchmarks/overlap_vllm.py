"""Seconds until held-out pass@1 reaches a level, where vLLM samples in a process of its own: a lag against lockstep.

    gnomon model gemma GEMMA --accept-terms
    gnomon model trim GEMMA SMALL --for number_words --tasks 400 env.shots=4 env.digits=3
    python benchmarks/overlap_vllm.py SMALL PYTHON --save overlap_vllm.jsonl

PYTHON is the interpreter of an environment with vLLM (docs/engines.md). Every arm trains all weights on
`number_words`. `lockstep` samples, then trains. `in flight` samples a step while the one before it is trained, and
loads each version of the weights between two tokens. vLLM and the learner use one thread each, or two where it says so.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from overlap import Clock, times

import gnomon
from training import noted

ARMS: dict[str, tuple[int, dict[str, Any]]] = {
    "lockstep": (1, {"lag": 0}),
    "lockstep, two threads": (2, {"lag": 0}),
    "in flight": (1, {"lag": 1, "in_flight": True}),
}
"""Threads, and settings of the rollout."""


def run(folder: Path, arm: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """One run. Returns: its arm, its curve over time, and the mean seconds of a step, evaluations included."""
    clock = Clock(folder.with_suffix(".started"))
    threads, rollout = ARMS[arm]
    settings: dict[str, Any] = {
        "env": {"shots": 4, "digits": 3},
        "policy": {"path": str(options.policy)},
        "optim": {"lr": 5e-6},
        "steps": options.steps,
        "seed": seed,
        "rollout": {"prompts": 8, "group": 8, "max_tokens": 14, **rollout},
        "eval": {"tasks": options.tasks, "every": options.every},
        "engine": {"type": "vllm", "python": str(options.python), "cache_gib": 0.5},
        "threads": threads,
    }
    with gnomon.train("number_words", observers=[clock], run=folder, quiet=True, **settings) as found:
        timings = found.timings()
        seconds = statistics.fmean(timing["seconds"] for timing in timings)
    return {"arm": arm, "seed": seed, "curve": clock.curve, "step": seconds}


def table(found: Sequence[dict[str, Any]], levels: Sequence[float]) -> Iterator[str]:
    yield "| | seconds to each level, by seed | s per step | pass@1 at the end, by seed |"
    yield "|---|---|---|---|"
    for arm in ARMS:
        some = [each for each in found if each["arm"] == arm]
        if not some:
            continue
        step = statistics.fmean(each["step"] for each in some)
        ends = ", ".join(f"{each['curve'][-1][1]:.2f}" for each in some)
        yield f"| {arm} | {times(some, levels, '{:.0f}')} | {step:.1f} | {ends} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy", type=Path, help="the folder of the policy")
    parser.add_argument("python", type=Path, help="the interpreter of an environment with vLLM")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tasks", type=int, default=50, help="held-out tasks of an evaluation")
    parser.add_argument("--every", type=int, default=3, help="steps between two evaluations")
    parser.add_argument("--levels", type=float, nargs="+", default=[0.2, 0.3, 0.4])
    parser.add_argument("--save", type=Path, help="add every run to this file")
    options = parser.parse_args()
    print(f"{platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in options.seeds:
            for number, arm in enumerate(ARMS):
                one = run(Path(folder) / f"{seed}-{number}", arm, seed, options)
                points = ", ".join(f"{seconds:.0f} s {value:.2f}" for seconds, value, _ in one["curve"])
                print(
                    f"{arm} seed {seed}: {one['step']:.1f} s a step, load {os.getloadavg()[0]:.1f}; {points}",
                    flush=True,
                )
                noted(found, one, options.save)
    print("\n".join(table(found, options.levels)))


if __name__ == "__main__":
    main()
