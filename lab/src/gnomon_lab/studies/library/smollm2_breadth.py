"""Whether many environments, rather than eight, help a pretrained model on environments that it never met."""

from functools import partial
from pathlib import Path
from typing import Any

import gnomon
from gnomon_lab.studies import Claim, Study, gain, gain_of

ENV: Any = {"level": 1, "format": 0.0, "strictness": "lenient", "hint": False}
NEW: Any = {"env": {"first": 100, "count": 50}, "tasks": 64}
SETTINGS: Any = {
    "policy": "smollm2", "lora": 16, "lr": 6e-4, "steps": 12, "prompts": 8, "group": 8, "optim": {"warmup": 1},
    "rollout": {"max_tokens": 12}, "save": {"every": 4}, "quiet": True,
    "eval": {"tasks": 24, "samples": 2, "every": 1000, "sets": {"new": NEW}},
}  # fmt: skip


def trained(count: int, seed: int, folder: Path) -> dict[str, float]:
    """Gains in held-out pass@1 by training on programs of which each seed has others, if there are eight."""
    env = {**ENV, "count": count, "first": 8 * seed if count == 8 else 0}
    with gnomon.train("gnomon_lab.drawn:Drawn", env=env, run=folder / "run", seed=seed, **SETTINGS) as run:
        return {"new": gain_of("new")(run), "own": gain(run)}


study = Study(
    question="Does SmolLM2 gain more on 50 new programs from training on 100 programs than on 8, at equal rollouts?",
    why="Breadth of environments should give transfer to new ones. Programs of one step over numbers, words and "
    "tables differ in what they do. Before training, SmolLM2 solved 6 % of such tasks after two examples (64 tasks).",
    arms={"8 programs": partial(trained, 8), "100 programs": partial(trained, 100)},
    seeds=range(3),
    claims=[Claim(measure="new", arm="100 programs", than="8 programs", above=0.0)],
    crashed={"new": 0.0, "own": 0.0},
    prediction={"PASS": 0.1, "FAIL": 0.05, "INCONCLUSIVE": 0.85},
)
