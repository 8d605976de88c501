"""Time of a gradient over processes, by the order of its micro-batches: python benchmarks/rank_order.py

A random model, so no download, and rows of unequal lengths, as replies of a reasoning model have. Two processes of one
thread each compute the same gradient by turns: with micro-batches in the order in which they are read, and from the
most expensive to the cheapest. Times are wall-clock seconds, so nothing else should run on the machine.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.multiprocessing as mp
from head import folder, random_batch

from gnomon.config import Source, resolve
from gnomon.learners import together
from gnomon.objectives import objective
from gnomon.run.ranks import join

ROWS, MEDIAN, SPREAD, LONGEST = 64, 200, 0.8, 2048
"""Replies: their lengths are lognormal, and cut at the longest."""


def lengths(seed: int) -> list[int]:
    rng = random.Random(seed)
    return [min(LONGEST, max(8, round(MEDIAN * rng.lognormvariate(0, SPREAD)))) for _ in range(ROWS)]


def as_read(costs: Sequence[float]) -> list[int]:
    return list(range(len(costs)))


def rank(place: int, model: str, meeting: str, processes: int, rounds: int, micro_batch: int) -> None:
    """One process of the learner. The first one prints."""
    settings = {"env": "char_count", "policy": {"path": model}, "ranks": processes}
    settings |= {"threads": 1, "optim": {"micro_batch": micro_batch}}
    config, _ = resolve([Source(settings, {})])
    row = objective("reinforce")
    learner = join(place, config, row, Path(meeting))
    orders = {"as read": as_read, "by cost": together.costliest_first}
    ratios = []
    for seed in range(rounds):
        batch = random_batch(lengths(seed), learner.policy.vocabulary)
        seconds = {}
        for name, order in list(orders.items())[:: (-1) ** seed]:
            together.costliest_first = order
            torch.distributed.barrier()
            began = time.perf_counter()
            learner.forward_backward(batch, row)
            torch.distributed.barrier()
            seconds[name] = time.perf_counter() - began
        ratios.append(seconds["by cost"] / seconds["as read"])
        if place == 0:
            cuts = len(batch.micro_batches(micro_batch))
            print(f"{cuts} micro-batches: {seconds['as read']:.2f} s as read, {seconds['by cost']:.2f} s by cost")
    if place == 0:
        print(f"by cost over as read: median {statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("processes", 2), ("rounds", 8), ("micro-batch", 1024)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        model = folder(Path(scratch) / "model", vocabulary=8192, layers=4, hidden=256)
        mp.spawn(rank, (str(model), scratch, given.processes, given.rounds, given.micro_batch), nprocs=given.processes)


if __name__ == "__main__":
    main()
