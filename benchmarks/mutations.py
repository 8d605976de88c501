"""Task mutations: what a policy learns from tasks it cannot solve, with their neighbours and without.

    python benchmarks/mutations.py runs/mutations --seeds 0 1 2

The policy to begin with, `FOLDER/base`, knows the form of an answer and nothing else: it is the tiny policy, fitted to
expressions over the given two or three numbers that are all wrong. (The tiny policy itself has no tasks that are hard
and within reach: it solves nearly all of three numbers up to 10 sometimes, and never one with a number above 10.)
Tasks are hard where that base solved them not once in 128 rollouts: looked for among the first train tasks, to train
on, and among the first held-out tasks, to judge by. The arm `hard` trains on the hard train tasks alone, `mutated`
on those and 15 mutations of each, with the default recipe and steps otherwise. Every run is a run folder of its own,
`FOLDER/ARM-SEED`; finished ones are kept. Prints, and writes to `FOLDER/table.md`, pass@1 on the hard held-out tasks,
over 16 new rollouts of each, before and after.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from contextlib import closing
from pathlib import Path
from statistics import fmean

from training import newest, trained

MUTATIONS = 15
LOOKED = {"train": 2048, "test": 1024}
FIRST, THEN = 8, 120
"""Rollouts of every task, and of those that no rollout solved."""
ARMS = ("hard", "mutated")
FORM = 4096
"""Wrong answers that the form is learned from."""


def solved(policy: str, split: str, indices: list[int], rollouts: int, purpose: str) -> list[float]:
    """The share of rollouts that a policy has right, of each task."""
    from gnomon.config import Env, Policy, RunConfig
    from gnomon.keys import Key
    from gnomon.launch.local import build

    parts = build(RunConfig(env=Env(type="countdown"), policy=Policy(path=policy), threads=1))
    parts.actor.engine.load(parts.learner.weights())
    tasks = parts.env.tasks(split)
    found: list[float] = []
    with closing(parts.actor.referee):
        for start in range(0, len(indices), 64):
            chosen = [(index, tasks[index]) for index in indices[start : start + 64]]
            groups = asyncio.run(parts.actor.play(chosen, Key(0).at(purpose, split=split), rollouts))
            found += [fmean(rollout.verdict.correct for rollout in group.rollouts) for group in groups]
    return found


def form(folder: Path) -> Path:
    """A policy that answers any task with some expression over its numbers."""
    from gnomon.envs import Countdown
    from gnomon.envs.expressions import grow
    from gnomon.keys import Key

    run = folder / "base"
    words = [f"rollout.demonstrations={folder / 'form.jsonl'}", "env.numbers=[2, 3]", "objective=sft", "steps=40"]
    if not run.exists():
        tasks, lines = Countdown(numbers=(2, 3)).tasks("train"), []
        for index in range(FORM):
            rng, value, text = Key(0).at("form", index=index).random(), tasks[index].answer, ""
            while value == tasks[index].answer:
                value, text = grow(rng, list(tasks[index].info["numbers"]))
            lines.append(json.dumps({"task": index, "reply": f"<answer>{text}</answer>"}))
        (folder / "form.jsonl").write_text("\n".join(lines) + "\n")
    return newest(trained(run, "countdown", [*words, "threads=1", "eval.tasks=128", "eval.every=40"]))


def hard(folder: Path, base: str) -> dict[str, list[int]]:
    """Indices of tasks that a policy never solved, by split."""
    file = folder / "hard.json"
    if not file.exists():
        found = {}
        for split, count in LOOKED.items():
            left = list(range(count))
            for rollouts in (FIRST, THEN):
                rates = solved(base, split, left, rollouts, f"look {rollouts}")
                left = [index for index, rate in zip(left, rates, strict=True) if rate == 0]
            found[split] = left
        file.write_text(json.dumps(found))
    return dict(json.loads(file.read_text()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--arms", nargs="*", default=list(ARMS), choices=ARMS)
    parser.add_argument("--set", nargs="*", default=[], metavar="key=value", help="for every run")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    from gnomon.stats import mean_interval

    base = str(form(options.folder))
    found = hard(options.folder, base)
    family = MUTATIONS + 1
    indices = {
        "hard": [family * index for index in found["train"]],
        "mutated": [family * index + variant for index in found["train"] for variant in range(family)],
    }

    def told(policy: str) -> str:
        rate = mean_interval(solved(policy, "test", found["test"], 16, "judge"))
        return f"{rate.value:.3f} [{rate.low:.3f}, {rate.high:.3f}]"

    before = told(base)
    print(
        f"{len(found['train'])} of {LOOKED['train']} train and {len(found['test'])} of {LOOKED['test']} held-out tasks "
        f"are hard; the base solves {before} of the held-out ones",
        flush=True,
    )
    lines = ["| arm, seed | pass@1 on hard held-out tasks, before | after |", "|---" * 3 + "|"]
    for arm in options.arms:
        for seed in options.seeds:
            words = [
                f"policy={base}", f"seed={seed}", f"env.mutations={MUTATIONS}", f"rollout.tasks={indices[arm]}",
                "threads=1", "eval.tasks=128", "eval.every=80", *options.set,
            ]  # fmt: skip
            run = trained(options.folder / f"{arm}-{seed}", "countdown", words)
            lines.append(f"| {arm}, {seed} | {before} | {told(str(newest(run)))} |")
            print(lines[-1], flush=True)
    (options.folder / "table.md").write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
