"""One representative of every family of objectives trains char_count, three seeds each; those that need several
turns train calculator.

    python benchmarks/objective_runs.py runs/objectives --seeds 0 1 2

Every run is a run folder of its own, `FOLDER/OBJECTIVE-SEED`; finished ones are kept, so the script can be stopped and
started again. Prints, and writes to `FOLDER/table.md`, the held-out pass@1 before and after, with 95 % intervals.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path

from training import gnomon, trained

COMMON = ["steps=40", "optim.minibatches=2", "eval.every=40", "eval.tasks=256"]
COUNTS = ["env.format=0"]
"""Objectives that count successes take rewards of 0 and 1."""
ROWS: dict[str, list[str]] = {
    "rloo": [],
    "dr_grpo": [],
    "grpo": [],
    "dapo": [],
    "ppo": [],
    "gspo": [],
    "cispo": [],
    "maxrl": COUNTS,
    "rl2ml": COUNTS,
    "pkpo_loo": COUNTS,
    "verifree": [],
    "fcp": ["steps=80", "optim.minibatches=1", "eval.every=80"],
    "online_dpo": [],
    "sft": [],
    "remax": [],
    "otb": [],
    "otb_loo": [],
    "entropy_mask": [],
    "rl_zvp": COUNTS,
    "gdpo": [],
    "dcpo": [],
    "vc_ppo": [],
    "vapo": [],
    "online_kto": COUNTS,
    "online_cpo": [],
    "online_orpo": [],
    "a_star_po": [],
    "m2po": [],
    "fipo": [],
    "tpo": [],
    "gigpo": [],
    "hgpo": [],
    "echo": [],
    "opd": [],
    "opd_sequence": [],
    "opsd": [],
}
TAUGHT = ("opd", "opd_sequence")
"""Rows with a teacher: the shipped policy after 60 steps of `dr_grpo` on the same environment."""
TURNS = dict.fromkeys(("gigpo", "hgpo", "echo"), "calculator")
"""Environments of the objectives that compare turns, or learn from observations."""


def demonstrations(path: Path, count: int = 4096) -> Path:
    """Careful work on train tasks, as the base's corpus has it now and then."""
    from gnomon.envs import CharCount
    from gnomon.tiny_policy.scratch import write

    tasks = CharCount().tasks("train")
    lines = [{"task": i, "reply": write("char_count", tasks[i], random.Random(i), care=1.0)} for i in range(count)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def teacher(folder: Path) -> Path:
    """The model folder of the teacher, which is trained before the first row that needs it."""
    model = folder / "teacher-model"
    if not model.exists():
        run = trained(folder / "teacher", "char_count", ["steps=60", "eval.every=20", "eval.tasks=256"])
        gnomon("export", str(run), str(model))
    return model


def train(folder: Path, name: str, seed: int, words: list[str]) -> dict[str, object]:
    """The summary of a run, trained now unless it is finished."""
    from gnomon.launch.read import summary
    from gnomon.store import RunReader

    run = folder / f"{name}-{seed}"
    settings = [f"objective={name}", f"seed={seed}", *COMMON, *ROWS[name], *words]
    if name == "sft":
        settings.append(f"rollout.demonstrations={demonstrations(folder / 'demonstrations.jsonl')}")
    if name in TAUGHT:
        settings.append(f"policy.reference={teacher(folder)}")
    trained(run, TURNS.get(name, "char_count"), settings)
    with RunReader(run) as reader:
        return summary(reader)


def cell(facts: dict[str, object], key: str) -> str:
    at = facts[key]["pass_at"]["1"]  # type: ignore[index]
    return f"{at['value']:.3f} [{at['low']:.3f}, {at['high']:.3f}]"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--set", nargs="*", default=[], metavar="key=value", help="for every run")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    lines = ["| objective | " + " | ".join(f"seed {seed}" for seed in options.seeds) + " |"]
    lines.append("|---" * (len(options.seeds) + 1) + "|")
    for name in options.rows:
        found = [train(options.folder, name, seed, options.set) for seed in options.seeds]
        lines.append(
            f"| {name} | " + " | ".join(f"{cell(f, 'baseline')} to {cell(f, 'held_out')}" for f in found) + " |"
        )
        print(lines[-1], flush=True)
    (options.folder / "table.md").write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
