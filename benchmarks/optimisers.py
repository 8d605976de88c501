"""Memory and time of optimiser steps: python benchmarks/optimisers.py

Random weights and gradients of a small model's shape: a vocabulary of 32,000 at width 512, and 12 matrices of 1,024 by
1,024. Every line is of a process of its own. `kept` is how far the resident memory rose from before the first step to
after the last one, `largest` the same for its largest value, and `step` the median processor time of the steps after
the first.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from statistics import median
from time import process_time

import torch

from gnomon.learners.optimisers import Adam, Sgd, optimizer_of
from gnomon.plans.devices import GIB, resident

SETTINGS = {
    "adamw": Adam(),
    "adamw, 8bit": Adam(states="8bit"),
    "sgd, momentum 0.9": Sgd(momentum=0.9),
    "sgd": Sgd(),
}
SHAPES = [(32000, 512), *[(1024, 1024)] * 12]
STEPS = 4


def measured(name: str) -> tuple[float, float, float]:
    """GiB kept, GiB at most, and seconds of a step."""
    generator = torch.Generator().manual_seed(0)
    parameters = [torch.randn(shape, generator=generator).requires_grad_() for shape in SHAPES]
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    optimizer = optimizer_of(SETTINGS[name], parameters, fused=True)
    seconds, before = [], resident()
    for _ in range(STEPS):
        began = process_time()
        optimizer.step()
        seconds.append(process_time() - began)
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return (resident() - before) / GIB, (largest - before) / GIB, median(seconds[1:])


def main() -> None:
    if len(sys.argv) > 1:
        kept, largest, seconds = measured(sys.argv[1])
        print(f"{sys.argv[1]:>18} {kept:7.3f} GiB {largest:7.3f} GiB {seconds:7.3f} s")
        return
    print(f"{'optimiser':>18} {'kept':>11} {'largest':>11} {'step':>9}", flush=True)
    for name in SETTINGS:
        print(subprocess.check_output([sys.executable, __file__, name], text=True), end="", flush=True)


if __name__ == "__main__":
    main()
