"""Task mutations: what a policy learns from tasks it cannot solve, with their neighbours and without.

    python benchmarks/mutations.py runs/mutations --seeds 0 1 2 3 4

The policy to begin with, `FOLDER/base`, is the tiny policy, fitted to what a pupil wrote with two habits. One blurts
out an expression that leaves a number out, and is never right. The other works, and is always right; but the pupil
works on small targets alone, and on those one time in eight. Last, it is fitted for a few steps to blurting alone.
(The tiny policy itself has no tasks that are hard and within reach: it solves nearly all of three numbers up to 10
sometimes, and never one with a number above 10.) Tasks are hard where the numbers are up to 9, the target is 30 or more
and that base solved them not once in 128 rollouts: looked for among the first such train tasks, to train on, and among
the first held-out ones, to judge by. The arm `hard` trains on the hard train tasks alone, `mutated` on those and 15
mutations of each: a number misread, a number dropped, another target. Steps, rollouts and recipe are the same. Every
run is a run folder of its own, `FOLDER/ARM-SEED`; finished ones are kept.

Prints, and writes to `FOLDER/table.md`, pass@1 on the hard held-out tasks, over 16 new rollouts of each, before and
after, and how many rollouts of the run were right; and names the runs of `hard` that did not stay under 2 % and those
of `mutated` that did not come over 30 %.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from training import newest, played, trained

if TYPE_CHECKING:
    from gnomon.stats import Interval
    from gnomon.types import Task

MUTATIONS = 15
LOOKED = {"train": 256, "test": 128}
"""Tasks with large targets that are looked at."""
FIRST, THEN = 8, 120
"""Rollouts of every such task, and of those that no rollout solved."""
ARMS = ("hard", "mutated")
STEPS, STAYS, COMES = 30, 0.02, 0.3
"""Of every run; what `hard` should stay under and `mutated` come over."""
SMALL, LARGE, WORKED = 9, 30, 8
"""The largest target that the pupil ever works for, the least of the large ones, and of how many replies one works."""
NUMBERS = (2, 3, 3, 3)
"""How many numbers the pupil's tasks have, by turns of chance."""
LARGEST = 9
"""The largest number of the tasks to train on and to judge by: before a 10 the pupil works too often."""
ASKED, TAUGHT, LAZY = 8192, 400, 8
"""Tasks that the pupil is asked, steps of the fit to both habits, and of the fit to blurting alone."""


def solved(policy: str, split: str, indices: list[int], rollouts: int, purpose: str) -> list[float]:
    """The share of rollouts that a policy has right, of each task."""
    env = {"type": "countdown", "largest": LARGEST}
    groups = played(policy, env, split, indices, rollouts, purpose)
    return [fmean(rollout.verdict.correct for rollout in group.rollouts) for group in groups]


def pupil(task: Task, rng: random.Random, works: bool) -> str:
    """A reply with one of the two habits."""
    from gnomon.envs.expressions import grow
    from gnomon_lab.tiny_policy.scratch import write

    numbers = task.info["numbers"]
    if works and len(numbers) == 3 and task.answer <= SMALL and not rng.randrange(WORKED):
        return write("countdown", task, rng, care=1.0)
    return f"<answer>{grow(rng, rng.sample(numbers, len(numbers) - 1))[1]}</answer>"


def fitted(run: Path, policy: str, works: bool, words: list[str]) -> str:
    """A policy, fitted to what the pupil writes to tasks with small and with large targets."""
    from gnomon.envs import Countdown
    from gnomon.keys import Key

    replies = run.with_suffix(".jsonl")
    if not run.exists():
        tasks, lines = Countdown(numbers=NUMBERS).tasks("train"), []
        for index in range(ASKED):
            if not SMALL < (task := tasks[index]).answer < LARGE:
                reply = pupil(task, Key(0).at("pupil", index=index).random(), works)
                lines.append(json.dumps({"task": index, "reply": reply}))
        replies.write_text("\n".join(lines) + "\n")
    told = [f"policy={policy}", f"env.numbers={list(NUMBERS)}", f"rollout.demonstrations={replies}", "objective=sft"]
    trained(run, "countdown", [*told, "prompts=128", "threads=1", "eval.tasks=128", "eval.every=1000", *words])
    return str(newest(run))


def begun(folder: Path) -> str:
    """The policy to begin with."""
    taught = fitted(folder / "taught", "tiny", True, [f"steps={TAUGHT}"])
    return fitted(folder / "base", taught, False, [f"steps={LAZY}", "optim.lr=1e-4", "optim.min_lr_ratio=1"])


def hard(folder: Path, base: str) -> dict[str, list[int]]:
    """Indices of tasks that a policy never solved, by split."""
    from gnomon.envs import Countdown

    file = folder / "hard.json"
    if not file.exists():
        found = {}
        for split, count in LOOKED.items():
            tasks = Countdown(largest=LARGEST).tasks(split)
            left = list(islice((index for index in range(len(tasks)) if tasks[index].answer >= LARGE), count))
            for rollouts in (FIRST, THEN):
                rates = solved(base, split, left, rollouts, f"look {rollouts}")
                left = [index for index, rate in zip(left, rates, strict=True) if rate == 0]
            found[split] = left
        file.write_text(json.dumps(found))
    return dict(json.loads(file.read_text()))


def right(run: Path) -> int:
    """Rollouts that were right while a run trained."""
    from gnomon.store import RunReader

    with RunReader(run) as reader:
        return sum(row.status == "correct" for row in reader.rollout_rows())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2, 3, 4])
    parser.add_argument("--arms", nargs="*", default=list(ARMS), choices=ARMS)
    parser.add_argument("--set", nargs="*", default=[], metavar="key=value", help="for every run")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    from gnomon.stats import mean_interval

    base = begun(options.folder)
    found = hard(options.folder, base)
    family = MUTATIONS + 1
    indices = {
        "hard": [family * index for index in found["train"]],
        "mutated": [family * index + variant for index in found["train"] for variant in range(family)],
    }

    def told(policy: str) -> Interval:
        return mean_interval(solved(policy, "test", found["test"], 16, "judge"))

    before = told(base)
    print(
        f"{len(found['train'])} of {LOOKED['train']} train and {len(found['test'])} of {LOOKED['test']} held-out tasks "
        f"are hard; the base solves {shown(before)} of the held-out ones",
        flush=True,
    )
    lines = ["| arm, seed | pass@1 on hard held-out tasks, before | after | right while training |"]
    lines, others = [*lines, "|---" * 4 + "|"], []
    for arm in options.arms:
        for seed in options.seeds:
            words = [
                f"policy={base}", f"seed={seed}", f"env.largest={LARGEST}", f"env.mutations={MUTATIONS}",
                f"rollout.tasks={indices[arm]}", "threads=1", f"steps={STEPS}", "eval.tasks=128", "eval.every=1000",
                *options.set,
            ]  # fmt: skip
            run = trained(options.folder / f"{arm}-{seed}", "countdown", words)
            after = told(str(newest(run)))
            lines.append(f"| {arm}, {seed} | {shown(before)} | {shown(after)} | {right(run)} |")
            held = after.value < STAYS if arm == "hard" else after.value > COMES
            others += [] if held else [run.name]
            print(lines[-1], flush=True)
    (options.folder / "table.md").write_text("\n".join(lines) + "\n")
    if others:
        print(f"otherwise: {', '.join(others)}")
    return 0


def shown(rate: Interval) -> str:
    return f"{rate.value:.3f} [{rate.low:.3f}, {rate.high:.3f}]"


if __name__ == "__main__":
    sys.exit(main())
