"""What each rung of the sandbox costs: executions per second of a trivial function, one caller.

    python benchmarks/jail.py

Every figure is the median of the rounds; the load of the machine is printed with them.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from gnomon.jail import Finished, Jail, Job, Limits, Program, Session, capabilities
from gnomon.verifiers import Pool, Returned

JOB = Job(source="def solve(x):\n    return x + 1\n", call="solve", inputs=((1,),))
MANY = Job(source=JOB.source, call="solve", inputs=tuple((x,) for x in range(100)))
PROGRAM = Program(source="print(int(input()) + 1)\n", stdins=("1",))


def pool(hardened: bool) -> Callable[[int], None]:
    made = Pool(abs, 1, hardened=hardened)

    def run(count: int) -> None:
        assert made.map([(-3,)] * count) == [Returned(3)] * count

    return run


def jail(
    job: Job | Program, workers: int = 1, recycle: int = 500, imports: tuple[str, ...] = ()
) -> Callable[[int], None]:
    made = Jail(workers, Limits(memory_bytes=2**30), recycle=recycle, imports=imports)

    def run(count: int) -> None:
        assert all(isinstance(outcome, Finished) for outcome in made.map([job] * count))

    return run


def session(count: int) -> None:
    for _ in range(count):
        with Session(("true",)) as started:
            started.receive_all()


def talk() -> Callable[[int], None]:
    started = Session(("cat",))

    def run(count: int) -> None:
        for _ in range(count):
            started.send(b"x\n")
            assert started.receive(5) == b"x\n"

    return run


def cold(*words: str) -> Callable[[int], None]:
    def run(count: int) -> None:
        for _ in range(count):
            subprocess.run([*words, sys.executable, "-I", "-S", "-c", "1 + 1"], check=True)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    began = time.perf_counter()
    matrix = capabilities()
    probed = time.perf_counter() - began
    load = os.getloadavg()[0]
    print(f"{platform.platform()}, {os.cpu_count()} cores, load {load:.2f}, bubblewrap {matrix.bubblewrap}")
    print(f"probes of all rungs: {probed:.2f} s, once per process")
    wrapped = ("bwrap", "--unshare-all", "--ro-bind", "/", "/")
    ways: dict[str, tuple[int, Callable[[int], None]]] = {
        "cold python -I -S, no wall": (20, cold()),
        "cold bwrap python -I -S": (20, cold(*wrapped)),
        "worker, not hardened": (2000, pool(False)),
        "worker, hardened": (2000, pool(True)),
        "jail, a function": (300, jail(JOB)),
        "jail, a function, 2 workers": (300, jail(JOB, workers=2)),
        "jail, a function of 100 inputs": (100, jail(MANY)),
        "jail, a program": (300, jail(PROGRAM)),
        "jail, a fresh one per job": (20, jail(JOB, recycle=1)),
        "jail with sympy imported": (200, jail(JOB, imports=("sympy",))),
        "session, start to end": (20, session),
        "session, one exchange": (500, talk()),
    }
    for _, run in ways.values():
        run(2)
    rounds = [{name: timed(run, count) for name, (count, run) in ways.items()} for _ in range(options.rounds)]
    for name, (count, _) in ways.items():
        seconds = statistics.median(times[name] for times in rounds) / count
        print(f"{name:<32} {1 / seconds:>8.0f} per second {1000 * seconds:>9.2f} ms each")
    print(f"load at the end {os.getloadavg()[0]:.2f}")


def timed(run: Callable[[int], None], count: int) -> float:
    began = time.perf_counter()
    run(count)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
