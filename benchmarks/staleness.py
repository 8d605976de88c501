"""Held-out pass@1 as training goes on, by how old the samples are, with a correction for their age and without one.

    python benchmarks/staleness.py --save staleness.jsonl

Every run samples by the deterministic schedule: step k with the weights after step k − lag. Without a correction
(reinforce_centred), the coefficients ignore how likely the tokens are by now; with one (tis), every token is weighted
by policy / sampler, truncated. At lag 0 this ratio is one. Runs of one seed have the same tasks.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gnomon
from training import noted

ROWS = {"none": "reinforce_centred", "tis": "tis"}
"""The objective of each correction."""
SETTINGS: dict[str, Any] = {
    "steps": 60,
    "rollout": {"prompts": 8, "group": 8},
    "eval": {"tasks": 64, "samples": 4, "every": 10},
    "threads": 1,
}
Curve = list[tuple[int, float]]
"""Steps with the pass@1 after them."""


def run(correction: str, lag: int, seed: int, folder: Path) -> dict[str, Any]:
    """One run. Returns: its arm, its curve, the KL divergence of sampler and learner, and seconds."""
    settings = {**SETTINGS, "rollout": {**SETTINGS["rollout"], "lag": lag}, "seed": seed}
    began = time.monotonic()
    with gnomon.train("char_count", run=folder, quiet=True, objective=ROWS[correction], **settings) as found:
        curve: Curve = [(int(each.step or 0), each.body["pass_at"]["1"]["value"]) for each in found.evaluations()]
        curve += [(found.steps, found.held_out["pass_at"]["1"]["value"])] if curve[-1][0] < found.steps else []
        apart = [each["metrics"].get("mismatch/kl", 0.0) for each in found.metrics()]
    arm = {"correction": correction, "lag": lag, "seed": seed, "curve": curve}
    return {**arm, "kl": statistics.fmean(apart), "seconds": time.monotonic() - began}


def table(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    """One line for each arm: mean pass@1 over the seeds at every evaluation, the range of the last, the KL."""
    steps = [step for step, _ in found[0]["curve"]]
    yield f"| correction | lag | seeds | {' | '.join(f'step {step}' for step in steps)} | lowest, highest last | KL |"
    yield "|---" * (len(steps) + 5) + "|"
    for correction, lag in dict.fromkeys((each["correction"], each["lag"]) for each in found):
        some = [each for each in found if (each["correction"], each["lag"]) == (correction, lag)]
        curves = [dict(each["curve"]) for each in some]
        means = [f"{statistics.fmean(curve[step] for curve in curves):.2f}" for step in steps]
        last = sorted(curve[steps[-1]] for curve in curves)
        kl = statistics.fmean(each["kl"] for each in some)
        yield f"| {correction} | {lag} | {len(some)} | {' | '.join(means)} | {last[0]:.2f}, {last[-1]:.2f} | {kl:.2g} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lags", type=int, nargs="+", default=[0, 1, 2, 4, 8])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--save", type=Path, help="add every run to this file, and leave out those that it has")
    options = parser.parse_args()
    print(f"{platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    found: list[dict[str, Any]] = []
    if options.save and options.save.exists():
        found = [json.loads(line) for line in options.save.read_text().splitlines()]
    known = {(each["correction"], each["lag"], each["seed"]) for each in found}
    with tempfile.TemporaryDirectory() as folder:
        for seed in options.seeds:
            for lag in options.lags:
                for correction in ROWS:
                    if (correction, lag, seed) in known:
                        continue
                    one = run(correction, lag, seed, Path(folder) / f"{correction}-{lag}-{seed}")
                    print(
                        f"{correction} lag {lag} seed {seed}: {one['curve'][-1][1]:.3f} in {one['seconds']:.0f} s",
                        flush=True,
                    )
                    noted(found, one, options.save)
    print("\n".join(table(sorted(found, key=lambda each: (each["correction"], each["lag"])))))


if __name__ == "__main__":
    main()
