"""What killable workers cost on a trivial scorer, and what they save on a poisoned batch.

    python benchmarks/pool.py

Trivial: countdown's own verifier on 2,000 replies, by turns in the caller, in a `gnomon.verifiers.Pool` and in a
`concurrent.futures.ProcessPoolExecutor` of as many workers; replies per second, median of the rounds. Poisoned:
the same with a share of jobs that never end, which only the pool survives; the time against the least possible,
which is (hung jobs x limit) / workers.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from gnomon.envs import ENVS
from gnomon.verifiers import Exceeded, Pool

ENV = ENVS["countdown"]()


def timed(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replies", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--hung", type=int, default=16, help="jobs of the poisoned batch that never end")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    tasks = ENV.tasks("train")
    jobs = [(task, f"<answer>{ENV.solution(task)}</answer>") for task in map(tasks.__getitem__, range(options.replies))]
    print(f"{platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}, {options.workers} workers")
    with Pool(ENV.verify, options.workers) as pool, ProcessPoolExecutor(options.workers) as peer:
        ways: dict[str, Callable[[], Any]] = {
            "in the caller": lambda: [ENV.verify(*job) for job in jobs],
            "pool": lambda: pool.map(jobs),
            "executor": lambda: list(peer.map(ENV.verify, *zip(*jobs, strict=True))),
        }
        rounds = [{name: timed(call) for name, call in ways.items()} for _ in range(options.rounds + 1)][1:]
    for name in ways:
        seconds = [times[name] for times in rounds]
        ratios = sorted(times[name] / times["pool"] for times in rounds)
        print(
            f"{name:<14} {len(jobs) / statistics.median(seconds):>8.0f} replies/s   time against the pool's "
            f"{ratios[0]:.2f} / {statistics.median(ratios):.2f} / {ratios[-1]:.2f} (min / median / max)"
        )
    limit = 0.25
    poisoned = [(0.001 if i % (400 // options.hung) else 3600.0,) for i in range(400)]
    with Pool(time.sleep, options.workers, seconds=limit, wall=limit) as pool:
        began = time.perf_counter()
        outcomes = pool.map(poisoned)
        seconds = time.perf_counter() - began
    hung = sum(isinstance(outcome, Exceeded) for outcome in outcomes)
    least = hung * limit / options.workers
    print(f"poisoned: {hung} of {len(outcomes)} hung, {seconds:.2f} s where {least:.2f} s is the least possible")


if __name__ == "__main__":
    main()
