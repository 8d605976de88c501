"""What a run is worth beside other work: tokens a second, alone and with busy processes, by how threads wait.

    python benchmarks/neighbours.py --threads 1 2 --busy 0 4 --rounds 3

Each figure is rollouts and updates of `countdown` in a process of its own, after a first step that is not counted.
`sleep` is how Gnomon has OpenMP's threads wait, `spin` what they do by themselves. Figures alternate within a round.
The share is the processor time that a thread got, over what a busy process got at the same time: 1 is fair.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from starts import busy

WAITS = {"sleep": {"OMP_WAIT_POLICY": "passive"}, "spin": {"GOMP_SPINCOUNT": "300000"}}
"""The second is what libgomp takes where nothing is set."""


async def speed(threads: int, seconds: float) -> tuple[float, float]:
    """Tokens a second by the clock, and by this process's processor time."""
    from gnomon.config import Source, resolve
    from gnomon.keys import Key
    from gnomon.rollout import pack
    from gnomon.rollout.failures import judged
    from gnomon.run.parts import build

    config, _ = resolve([Source({"env": "countdown", "threads": threads, "rollout": {"prompts": 8}}, {})])
    parts = build(config)
    tasks, key, prompts = parts.env.tasks("train"), Key(0), config.rollout.prompts
    tokens, step, wall, cpu = 0, 0, 0.0, 0.0
    while step < 2 or time.perf_counter() - wall < seconds:
        await parts.actor.sync(parts.learner.publish(), step)
        chosen = [(index, tasks[index]) for index in range(step * prompts, (step + 1) * prompts)]
        groups = await parts.actor.collect(chosen, key.at("rollouts", step=step))
        batch = pack(judged(groups), sampling=parts.actor.sampling, exact=parts.actor.exact)
        batch = parts.credit(batch, parts.learner)
        for part in batch.updates(1, 1, key.at("updates", step=step)):
            parts.learner.forward_backward(part, parts.objective)
            parts.learner.optim_step(config.optim.lr)
        tokens += sum(len(turn.completion.token_ids) for g in groups for r in g.rollouts for turn in r.turns)
        if step == 0:
            tokens, wall, cpu = 0, time.perf_counter(), time.process_time()
        step += 1
    return tokens / (time.perf_counter() - wall), tokens / (time.process_time() - cpu)


def used(processes: Sequence[subprocess.Popen[bytes]]) -> float:
    """Seconds of processor time that processes took so far."""
    fields = [Path(f"/proc/{each.pid}/stat").read_text().rpartition(")")[2].split() for each in processes]
    return sum(int(user) + int(system) for _, user, system in (each[10:13] for each in fields)) / os.sysconf(
        "SC_CLK_TCK"
    )


def measured(threads: int, wait: str, seconds: float, beside: int) -> tuple[float, float, float]:
    """`speed` in a process whose threads wait in this way, beside busy processes, and the share of a thread."""
    kept = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    command = [sys.executable, __file__, "--one", "--threads", str(threads), "--seconds", str(seconds)]
    with busy(beside) as neighbours:
        start, before = time.perf_counter(), used(neighbours)
        done = subprocess.run(command, capture_output=True, text=True, env={**kept, **WAITS[wait]}, check=True)
        theirs = (used(neighbours) - before) / (time.perf_counter() - start) / max(1, beside)
    clock, processor = map(float, done.stdout.split())
    return clock, processor, clock / processor / threads / (theirs or 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of a figure")
    parser.add_argument("--one", action="store_true", help="one figure, in this process")
    given = parser.parse_args()
    if given.one:
        print(*asyncio.run(speed(given.threads[0], given.seconds)))
        return
    cases = list(product(given.busy, given.threads, WAITS))
    found: dict[tuple[int, int, str], list[tuple[float, float, float]]] = {case: [] for case in cases}
    for _ in range(given.rounds):
        for case in cases:
            found[case].append(measured(case[1], case[2], given.seconds, case[0]))
            load = os.getloadavg()[0]
            print(*case, *(f"{figure:,.2f}" for figure in found[case][-1]), f"load {load:.1f}", file=sys.stderr)
    print("neighbours  threads  wait   tokens/s (least to most)      tokens per second of processor time  share")
    for (neighbours, threads, wait), figures in found.items():
        clock, processor, share = ([figure[side] for figure in figures] for side in (0, 1, 2))
        spread = f"{statistics.median(clock):>6,.0f} ({min(clock):,.0f} to {max(clock):,.0f})"
        print(
            f"{neighbours:>10}  {threads:>7}  {wait:<5}  {spread:<28}  {statistics.median(processor):>6,.0f}"
            f"{statistics.median(share):>32.2f}"
        )


if __name__ == "__main__":
    main()
