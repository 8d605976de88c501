"""Whether every start finds the same tier: sampler and learner are compared in many new processes on a busy machine.

    python benchmarks/starts.py --starts 200 --fresh 20 --busy 4

A start is what a run does before its first step: load the policy, decode, score the same tokens. `--fresh` starts are
interpreters of their own. The others are forked from one that has imported torch and transformers and has computed
nothing: what is imported last, and every first call of a kernel, is theirs. `--busy` processes compute beside them.
Prints how many starts found which tier, the largest difference, and what the machine was.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import gnomon  # noqa: F401 - before torch: it says how threads wait for each other

BUSY = "while True: sum(range(10**6))"


def start(env: str, threads: int) -> dict[str, object]:
    """Tier and difference that a start in this process finds."""
    import torch

    from gnomon.config import Source, resolve
    from gnomon.run.parts import build

    config, _ = resolve([Source({"env": env, "threads": threads}, {})])
    torch.set_num_threads(config.threads)
    parts = build(config)
    return {"tier": parts.engine.tier.value, "gap": parts.mismatch}


def forked(env: str, threads: int) -> dict[str, object]:
    """What a start finds in a child of this process."""
    mine, theirs = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.write(theirs, json.dumps(start(env, threads)).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(mine) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return json.loads(text or '{"tier": "died", "gap": NaN}')


def fresh(env: str, threads: int) -> dict[str, object]:
    """What a start finds in an interpreter of its own."""
    command = [sys.executable, __file__, "--one", "--env", env, "--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else {"tier": "died", "gap": float("nan")}


@contextmanager
def busy(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A machine on which this many processes never rest: the processes."""
    neighbours = [subprocess.Popen([sys.executable, "-S", "-c", BUSY]) for _ in range(count)]
    try:
        yield neighbours
    finally:
        for neighbour in neighbours:
            neighbour.kill()
            neighbour.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--starts", type=int, default=200, help="in forked processes")
    parser.add_argument("--fresh", type=int, default=20, help="in interpreters of their own")
    parser.add_argument("--busy", type=int, default=4, help="processes that compute beside them")
    parser.add_argument("--env", default="countdown")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1200.0, help="after which no start is begun")
    parser.add_argument("--one", action="store_true", help="one start, in this process")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(start(given.env, given.threads)))
        return
    import torch
    import transformers.modeling_utils  # noqa: F401
    import transformers.models.auto.modeling_auto  # noqa: F401 - imported before the processes are forked

    began, found = time.monotonic(), []
    with busy(given.busy):
        for place in range(given.starts + given.fresh):
            if time.monotonic() - began > given.seconds:
                break
            found.append((forked if place < given.starts else fresh)(given.env, given.threads))
    print(f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, {given.threads} threads")
    print(f"{len(found)} starts beside {given.busy} busy processes in {time.monotonic() - began:.0f} s")
    for tier, count in Counter(facts["tier"] for facts in found).items():
        print(f"{tier:<10} {count:>4}   largest difference {max(f['gap'] for f in found if f['tier'] == tier):.2g}")
    sys.exit(0 if len({facts["tier"] for facts in found}) == 1 else 1)


if __name__ == "__main__":
    main()
