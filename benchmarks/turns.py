"""Credit for turns against credit for episodes: how many guesses does a policy need after training?

    python benchmarks/turns.py runs/turns --seeds 0 1 2 3 4

Guess the number, 1 to 8, in four guesses, from the tiny policy. A success pays 1 whenever it comes; the arms with a
discount credit a turn by γ to the number of turns until then. Every run is a run folder of its own,
`FOLDER/ARM-SEED`; finished ones are kept. Prints, and writes to `FOLDER/table.md`, pass@1 and the mean number of
guesses on the same held-out tasks before and after, over the episodes that were solved, and over all, with one guess
more than there are for each that was not.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

from training import trained

COMMON = [
    "env.largest=8", "env.guesses=4", "rollout.max_tokens=16", "rollout.prompts=16", "rollout.group=8", "steps=60",
    "eval.every=60", "eval.tasks=256", "save.every=60", "threads=1",
]  # fmt: skip
ARMS = {
    "grpo": ["objective=grpo"],
    "grpo, speed": ["objective=grpo", "env.speed=0.5"],
    "rebn, 0.8": ["objective=rebn", "objective.gamma=0.8"],
    "discounted, 0.8": ["objective=turn_reinforce_discounted", "objective.gamma=0.8"],
}
"""The arm with speed pays a solved episode for the turns that it saves, and still credits it as a whole."""
GUESSES = 4


def guesses(run: Path) -> list[tuple[float, float, float]]:
    """Pass@1, mean guesses of the solved episodes, and of all, at the first and at the last evaluation."""
    from gnomon.store import RunReader

    with RunReader(run) as reader:
        bodies = [(record.step, record.body) for record in reader.records("held_out")]
    found = []
    for step in (min(step for step, _ in bodies), max(step for step, _ in bodies)):
        told = [(len(body.get("turns", [0])), body["status"] == "correct") for at, body in bodies if at == step]
        solved = [turns for turns, right in told if right]
        capped = [min(turns, GUESSES) if right else GUESSES + 1 for turns, right in told]
        found.append((len(solved) / len(told), statistics.fmean(solved or [float("nan")]), statistics.fmean(capped)))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2, 3, 4])
    parser.add_argument("--arms", nargs="*", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--set", nargs="*", default=[], metavar="key=value", help="for every run")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    lines = ["| arm, seed | pass@1 | guesses of the solved | guesses of all |", "|---" * 4 + "|"]
    ends: dict[str, list[float]] = {arm: [] for arm in options.arms}
    for seed in options.seeds:
        for arm in options.arms:
            run = options.folder / f"{arm.replace(', ', '-')}-{seed}"
            trained(run, "guess_number", [f"seed={seed}", *COMMON, *ARMS[arm], *options.set])
            (p, solved, every), (p_after, solved_after, every_after) = guesses(run)
            ends[arm].append(every_after)
            lines.append(
                f"| {arm}, {seed} | {p:.3f} to {p_after:.3f} | {solved:.2f} to {solved_after:.2f} | "
                f"{every:.2f} to {every_after:.2f} |"
            )
            print(lines[-1], flush=True)
    for arm in options.arms:
        if arm != "grpo" and ends.get("grpo"):
            change = statistics.fmean(ends[arm]) / statistics.fmean(ends["grpo"]) - 1
            lines.append(f"\n{arm}: {change:+.1%} guesses of all, against grpo")
            print(lines[-1], flush=True)
    (options.folder / "table.md").write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
