"""What faults of trainers cost in a run: the shipped policy on char_count, with each fault and without it.

    python benchmarks/fault_costs.py FOLDER --steps 40 --seeds 0 1 2

An arm differs from its sound twin in the fault alone. The table has held-out pass@1 of sound verdicts after training.
A finished run is kept, so the command can be ended and repeated.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor

import gnomon
from gnomon.envs import CharCount
from gnomon.objectives import Declaration, Objective, add, dr_grpo
from gnomon.objectives.advantages import mean_centred, sample_standardised
from gnomon.types import Task

HERE = Path(__file__)
SHARE = 26
"""Of 256: how often the verifier fails."""


@dataclass(frozen=True, kw_only=True)
class FailuresAreWrong(CharCount):
    """Character count whose verifier fails on a tenth of task and answer pairs, and calls them wrong."""

    def check(self, task: Task, answer: str) -> bool:
        fails = hashlib.sha256(f"{task.id} {answer}".encode()).digest()[0] < SHARE
        return not fails and super().check(task, answer)


def deviation_kept(rewards: Tensor) -> Tensor:
    """Dr. GRPO that still divides by the deviation: the default of TRL 1.16."""
    return sample_standardised(rewards, epsilon=1e-4)


def first_alone(rewards: Tensor) -> Tensor:
    """All rollouts of a group but one lose their advantage."""
    advantage = mean_centred(rewards)
    return torch.cat([advantage[:, :1], torch.zeros_like(advantage[:, 1:])], dim=1)


def float32_deviation(rewards: Tensor, epsilon: float) -> Tensor:
    """Rewards in float32, whose rounding is divided by a deviation of nearly zero."""
    single = rewards.to(torch.float32)
    centred = single - single.mean(dim=1, keepdim=True)
    return (centred / (single.std(dim=1, keepdim=True) + epsilon)).to(rewards.dtype)


def tiny_epsilon(rewards: Tensor) -> Tensor:
    """As OpenRLHF 0.11.2 does."""
    return float32_deviation(rewards, 1e-9)


RULES: dict[str, Callable[[Tensor], Tensor]] = {
    function.__name__: function for function in (deviation_kept, first_alone, tiny_epsilon)
}
SEVEN_TENTHS = {"correct": 0.6, "format": 0.1}
ARMS: dict[str, dict[str, Any]] = {
    "sound": {},
    "deviation kept in dr_grpo": {"objective": "deviation_kept"},
    "one rollout of eight learns": {"objective": "first_alone"},
    "sound, deviation, rewards .7 and .1": {"objective": "deviation_kept", "env": SEVEN_TENTHS},
    "float32 and ε = 1e-9, rewards .7 and .1": {"objective": "tiny_epsilon", "env": SEVEN_TENTHS},
    "a tenth of verdicts fails and counts as wrong": {
        "type": f"{HERE}:FailuresAreWrong",
        "audit": {"acknowledge": ["correctness.own_solution"]},
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    for name, rule in RULES.items():
        add(Declaration(name, "A fault.", "benchmarks/fault_costs.py"), with_advantage(rule))
    print("| arm | " + " | ".join(f"seed {seed}" for seed in options.seeds) + " | mean |", flush=True)
    print("|---" * (len(options.seeds) + 2) + "|", flush=True)
    for number, (arm, given) in enumerate(ARMS.items()):
        rates = [rate(options.folder / f"{number}-{seed}", given, options.steps, seed) for seed in options.seeds]
        print(f"| {arm} | " + " | ".join(f"{each:.3f}" for each in (*rates, mean(rates))) + " |", flush=True)


def with_advantage(rule: Callable[[Tensor], Tensor]) -> Callable[[], Objective]:
    """Dr. GRPO with another advantage."""

    def build() -> Objective:
        return replace(dr_grpo(), advantage=rule)

    return build


def rate(folder: Path, arm: dict[str, Any], steps: int, seed: int) -> float:
    """Held-out pass@1 after a run, by sound verdicts."""
    if not (folder / "journal.db").exists():
        gnomon.train(
            arm.get("type", "char_count"),
            env=arm.get("env", {}),
            objective=arm.get("objective", "dr_grpo"),
            run=folder,
            seed=seed,
            steps=steps,
            eval={"every": 1000, "tasks": 32, "sets": {"sound": {"env": {"type": "char_count"}, "tasks": 256}}},
            audit=arm.get("audit", {}),
            quiet=True,
        ).close()
    with gnomon.open(folder) as run:
        return float(run.evaluations("sound")[-1].body["pass_at"]["1"]["value"])


if __name__ == "__main__":
    main()
