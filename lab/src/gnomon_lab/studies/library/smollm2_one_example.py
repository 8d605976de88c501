"""Whether one train task raises the accuracy of a pretrained model on other tasks."""

from pathlib import Path
from typing import Any

import gnomon
from gnomon_lab.studies import Claim, Study, gain

SETTINGS: Any = {
    "env": {"low": 1, "high": 19}, "policy": "smollm2", "lora": 16, "lr": 6e-4, "steps": 6, "prompts": 1, "group": 64,
    "optim": {"warmup": 1}, "eval": {"tasks": 24, "samples": 4, "every": 1000}, "save": {"every": 2}, "quiet": True,
}  # fmt: skip


def trained(seed: int, folder: Path) -> dict[str, float]:
    """Gain of held-out pass@1 by six steps on one sum, which each seed chooses."""
    rollout: Any = {"tasks": [seed], "max_tokens": 12, "stop": []}
    with gnomon.train(
        "gnomon_lab.addition:Addition", run=folder / "run", seed=seed, rollout=rollout, **SETTINGS
    ) as run:  # fmt: skip
        return {"gain": gain(run)}


study = Study(
    question="Does training on one sum raise the accuracy of SmolLM2 on other sums by ten points?",
    why="One example with a verifier raised a mathematics model from 36 to 74 on MATH500 (Wang et al. 2025, arXiv "
    "2504.20571). Here a policy may also learn the one answer. Steps have as many rollouts as those of the other "
    "studies on sums, where many tasks gain forty points.",
    arms={"one example": trained},
    seeds=range(3),
    claims=[Claim(measure="gain", arm="one example", above=0.1)],
    prediction={"PASS": 0.05, "FAIL": 0.7, "INCONCLUSIVE": 0.25},
)
