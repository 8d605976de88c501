"""Whether a second phase of training, on tasks that are sometimes solved, makes replies shorter and keeps accuracy."""

from pathlib import Path
from typing import Any

import gnomon
from gnomon_lab.studies import Claim, Study

COMMON: Any = {"env": {"signs": "+"}, "max_tokens": 32, "threads": 1}
OWN: Any = COMMON | {"quiet": True, "eval": {"tasks": 2}, "save": {"every": 10}}


def trained(seed: int, folder: Path) -> dict[str, float]:
    """Held-out tokens saved and accuracy gained in phase two, on tasks that phase one solved sometimes, and on all."""

    def phase(name: str, steps: int, **own: Any) -> tuple[float, float]:
        gnomon.train("arithmetic", run=folder / name, seed=seed, steps=steps, **OWN | own).close()
        found = gnomon.evaluate(folder / name, "arithmetic", eval={"tasks": 128, "samples": 4}, **COMMON)
        return found.length, found.pass_at[1].value

    (length, accuracy), start = phase("first", 10, prompts=16), {"policy": str(folder / "first/checkpoints/000010")}
    with gnomon.train("arithmetic", run=folder / "tried", seed=seed, steps=1, prompts=128, **OWN | start) as tried:
        replies = [(row.task or 0, row.body["status"] == "correct") for row in tried.records("rollout")]
    tasks = {"all": sorted({task for task, _ in replies})}
    tasks["sometimes"] = [task for task in tasks["all"] if {(task, True), (task, False)} <= set(replies)]
    found = {"tasks": float(len(tasks["sometimes"]))}
    for name, among in tasks.items():
        tokens, right = phase(name, 12, **start | {"rollout": {"tasks": among, "prompts": 8}})
        found |= {f"saved, {name}": length - tokens, f"gained, {name}": right - accuracy}
    return found


study = Study(
    question="Does a second phase on tasks that are sometimes solved save a token of a reply and keep the accuracy?",
    why="Replies grew shorter in arXiv 2504.05185. Phase one is that of work-appears, with sums of two numbers. "
    "The author had seen a longer run with another seed: 16.6 tokens held out, both after 10 steps and after 50.",
    arms={"all": trained}, seeds=range(3),
    claims=[Claim(measure=f"{x}, sometimes", arm="all", above=y) for x, y in (("saved", 1.0), ("gained", -0.03))],
    prediction={"PASS": 0.02, "FAIL": 0.8, "INCONCLUSIVE": 0.18},
)  # fmt: skip
