"""Whether a hint at the answer format is enough for a pretrained model, or whether it needs solved examples."""

from functools import partial

import gnomon
from gnomon.types import Status
from gnomon_lab.studies import Claim, Study


def evaluated(seed: int, hint: bool, shots: int) -> dict[str, float]:
    """Share of the replies of SmolLM2 to 16 calculations that have an answer in the format, before any training."""
    found = gnomon.evaluate(
        "smollm2", "arithmetic", env={"hint": hint, "shots": shots, "seed": seed}, seed=seed,
        rollout={"max_tokens": 24, "stop": []}, eval={"tasks": 16, "samples": 2},
    )  # fmt: skip
    return {"form": 1 - found.statuses.get(Status.NO_ANSWER, 0) / 32}


study = Study(
    question="Does SmolLM2 answer in the right form after two solved examples, and never by a hint alone or none?",
    why="Without a hint in the prompt, 20 steps of GRPO on a base model brought not one hit. The form is <answer> "
    "tags, and the hint shows them. Where no reply has the form, no reward is paid, so training cannot begin. The "
    "author had seen 64 replies without examples, none of which had the form, and 8 with, all of which had it.",
    arms={
        "none": partial(evaluated, hint=False, shots=0),
        "hint": partial(evaluated, hint=True, shots=0),
        "two examples": partial(evaluated, hint=True, shots=2),
    },
    seeds=range(3),
    claims=[
        Claim(measure="form", arm="none", within=0.01),
        Claim(measure="form", arm="hint", within=0.01),
        Claim(measure="form", arm="two examples", above=0.5),
    ],
    prediction={"PASS": 0.9, "FAIL": 0.03, "INCONCLUSIVE": 0.07},
)
