"""What killable workers cost on a trivial scorer, and what they save on a poisoned batch.

    python benchmarks/pool.py

Trivial: countdown's own verifier on 2,000 replies, by turns in the caller, in a `gnomon.verifiers.Pool` and in a
`concurrent.futures.ProcessPoolExecutor` of as many workers; replies per second, median of the rounds. Poisoned:
the same with a share of jobs that never end, which only the pool survives; the time against the least possible,
which is (hung jobs x limit) / workers. Doubled: polynomials that take a few milliseconds each, by turns with one
worker and with two, and whether both gave the same verdicts. Cards: of each verifier, the cost of one reply.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from gnomon.envs import ENVS
from gnomon.types import Task
from gnomon.verifiers import Choice, Judge, Number, Pattern, PolynomialAnswer, SetMatch, Text, Verifier
from gnomon.workers import Exceeded, Pool

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
    doubled(options.rounds)
    cards()


def doubled(rounds: int) -> None:
    """The time of one worker against that of two, and of two against itself: are the verdicts the same?"""
    task = Task(id="1", messages=(), answer="(a+b+c)^9")
    items = [(task, f"<answer>(b+a+c)^8(a+b+{'c' if i % 2 else 'd'})</answer>") for i in range(200)]
    verifier = PolynomialAnswer()
    with Judge(verifier, 1) as one, Judge(verifier, 2) as two:
        same = one.judge(items) == two.judge(items)
        ratios = [timed(lambda: one.judge(items)) / timed(lambda: two.judge(items)) for _ in range(rounds)]
    low, middle, high = min(ratios), statistics.median(ratios), max(ratios)
    print(f"two workers: {low:.2f} / {middle:.2f} / {high:.2f} times as fast as one (min / median / max), ", end="")
    print("the same verdicts" if same else "OTHER VERDICTS")


def cards() -> None:
    """Milliseconds of one judgement in the caller, after the first."""
    cases: list[tuple[Verifier, Any, str]] = [
        (Text(), "Paris", "Paris"),
        (Number(), "22/7", "3.142857"),
        (PolynomialAnswer(), "(x+y)^2", "x^2+2xy+y^2"),
        (Choice(), "B", "B"),
        (SetMatch(items="number"), [1, 2, 3], "3, 2, 1"),
        (Pattern(), r"\d+", "1729"),
    ]
    if importlib.util.find_spec("mpmath"):
        from gnomon.verifiers import Math

        cases += [(Math(), r"\frac{1}{2}", "0.5"), (Math(), r"\sqrt{2}", r"\frac{2}{\sqrt{2}}")]
    if importlib.util.find_spec("jsonschema"):
        from gnomon.verifiers import JsonSchema

        cases += [(JsonSchema(), {"type": "object"}, '{"x": 1}')]
    for verifier, gold, said in cases:
        task = Task(id="1", messages=(), answer=gold, info={"options": ("red", "blue")})
        reply = f"<answer>{said}</answer>"
        verifier.verify(task, reply)
        times = [timed(lambda v=verifier, t=task, r=reply: v.verify(t, r)) for _ in range(200)]  # type: ignore[misc]
        print(f"{type(verifier).__name__:<18} {said:<20} {1000 * statistics.median(times):8.3f} ms")


if __name__ == "__main__":
    main()
