"""What a pretrained chat model loses where its prompts lack its chat format."""

from functools import partial
from typing import Any

import gnomon
from gnomon_lab.studies import Claim, Study


def evaluated(seed: int, renderer: Any) -> dict[str, float]:
    """Pass@1 of SmolLM2 on 32 sums of one or two digits, four replies each, before any training."""
    found = gnomon.evaluate(
        "smollm2", "gnomon_lab.addition:Addition", env={"low": 1, "high": 19, "seed": seed}, seed=seed,
        policy={"renderer": renderer}, rollout={"max_tokens": 12, "stop": []}, eval={"tasks": 32, "samples": 4},
    )  # fmt: skip
    return {"start": found.pass_at[1].value}


study = Study(
    question="Does SmolLM2, a chat model, solve more sums in its own chat format than in a plain one?",
    why="A model answers best in the form of its training, and a gain that training adds in another form is partly "
    "what the form took (Liu et al. 2025, arXiv 2503.20783, on base models). Nothing is trained. Each seed has other "
    "sums. The author had seen sums of numbers from 1 to 9: .07 and .02.",
    arms={"chat": partial(evaluated, renderer="auto"), "plain": partial(evaluated, renderer="plain")},
    seeds=range(5),
    claims=[Claim(measure="start", arm="chat", than="plain", above=0.0)],
    prediction={"PASS": 0.8, "FAIL": 0.02, "INCONCLUSIVE": 0.18},
)
