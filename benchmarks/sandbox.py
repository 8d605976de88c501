"""What each rung of the sandbox costs: executions of a trivial function, one caller.

    python benchmarks/sandbox.py

Every way is opened, asked and closed with few and with many jobs; the difference is told per job, so that starting up
does not count. Time is the median of the rounds and depends on the load, which is printed; processor time is that of
the caller and of all it started, the least of the rounds, and hardly depends on it.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

from gnomon.sandbox import Finished, Job, Limits, Program, Sandbox, Session, Work, capabilities
from gnomon.workers import Pool, Returned

JOB = Job(source="def solve(x):\n    return x + 1\n", call="solve", inputs=((1,),))
MANY = Job(source=JOB.source, call="solve", inputs=tuple((x,) for x in range(100)))
PROGRAM = Program(source="print(int(input()) + 1)\n", stdins=("1",))
WALL = ("bwrap", "--unshare-all", "--ro-bind", "/", "/")


def pool(count: int, *, hardened: bool) -> None:
    with Pool(abs, 1, hardened=hardened) as made:
        assert made.map([(-3,)] * count) == [Returned(3)] * count


def sandbox(
    count: int, *, work: Work = JOB, workers: int = 1, recycle: int = 5000, imports: tuple[str, ...] = ()
) -> None:
    with Sandbox(workers, Limits(memory_bytes=2**30), recycle=recycle, imports=imports) as made:
        assert all(isinstance(outcome, Finished) for outcome in made.map([work] * count))


def sessions(count: int) -> None:
    for _ in range(count):
        with Session(("true",)) as started:
            started.receive_all()


def exchanges(count: int) -> None:
    with Session(("cat",)) as started:
        for _ in range(count):
            started.send(b"x\n")
            assert started.receive(10) == b"x\n"


def cold(count: int, *, words: tuple[str, ...] = ()) -> None:
    for _ in range(count):
        subprocess.run([*words, sys.executable, "-I", "-S", "-c", "1 + 1"], check=True)


WAYS: dict[str, tuple[int, Callable[[int], None]]] = {
    "cold python -I -S, no wall": (20, cold),
    "cold bwrap python -I -S": (20, partial(cold, words=WALL)),
    "worker, not hardened": (3000, partial(pool, hardened=False)),
    "worker, hardened": (3000, partial(pool, hardened=True)),
    "sandbox, a function": (300, sandbox),
    "sandbox, a function, 2 workers": (300, partial(sandbox, workers=2)),
    "sandbox, a function of 100 inputs": (100, partial(sandbox, work=MANY)),
    "sandbox, a program": (300, partial(sandbox, work=PROGRAM)),
    "sandbox with sympy imported": (200, partial(sandbox, imports=("sympy",))),
    "sandbox, a fresh one per job": (20, partial(sandbox, recycle=1)),
    "session, start to end": (20, sessions),
    "session, one exchange": (2000, exchanges),
}


def spent(call: Callable[[int], None], count: int) -> tuple[float, float]:
    """Seconds by the clock, and of processor time, of it and of what it started and waited for."""
    began, used = time.perf_counter(), processor()
    call(count)
    return time.perf_counter() - began, processor() - used


def processor() -> float:
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    began = spent(lambda _: print(f"bubblewrap {capabilities().bubblewrap}"), 1)
    print(f"{platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"probes of all rungs: {began[0]:.2f} s, {began[1]:.2f} s of processor time, once per process")
    rounds: list[dict[str, tuple[float, float]]] = []
    for _ in range(options.rounds):
        rounds.append({})
        for name, (count, call) in WAYS.items():
            few, many = spent(call, 1), spent(call, count + 1)
            rounds[-1][name] = (many[0] - few[0]) / count, (many[1] - few[1]) / count
    for name in WAYS:
        seconds = statistics.median(found[name][0] for found in rounds)
        used = min(found[name][1] for found in rounds)
        # A pool's workers and a cold bwrap's child are not waited for, so that their time is in nobody's account.
        told = "" if name.startswith(("worker", "cold")) else f" {1000 * used:>9.2f} ms of processor time"
        print(f"{name:<32} {1 / seconds:>8.0f} per second {1000 * seconds:>9.2f} ms each{told}")
    print(f"load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
