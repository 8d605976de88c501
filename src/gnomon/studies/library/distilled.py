"""Whether a small model gains more from a larger one that was trained by rewards than from the rewards."""

import json
import random
from pathlib import Path
from typing import Any

import gnomon
from gnomon.envs import CharCount
from gnomon.launch.export import export
from gnomon.models.policy import Policy
from gnomon.plans.flops import step_flops
from gnomon.studies import Claim, Study, at_flops, final
from gnomon.tiny_policy.scratch import write

COMMON: Any = {"quiet": True, "threads": 1, "prompts": 16, "eval": {"every": 5, "tasks": 128, "samples": 2}}


def trained(seed: int, folder: Path) -> dict[str, float]:
    """Held-out pass@1 of the small model: distilled, and trained by rewards with as many operations in all."""

    def model(name: str, **settings: Any) -> str:
        gnomon.train("char_count", run=folder / name, seed=seed, **(COMMON | settings)).close()
        return str(export(str(folder / name), folder / f"{name}-model").folder)

    policy, tasks = Policy.load("tiny"), CharCount().tasks("train")
    policy.model.gpt_neox.layers, policy.model.config.num_hidden_layers = policy.model.gpt_neox.layers[:2], 2
    policy.save(folder / "cut")
    rows = [{"task": at, "reply": write("char_count", tasks[at], random.Random(at))} for at in range(4096)]
    (folder / "replies.jsonl").write_text("\n".join(map(json.dumps, rows)))
    fitted = {"prompts": 64, "demonstrations": str(folder / "replies.jsonl")}
    small = model("small", policy=str(folder / "cut"), objective="sft", steps=120, optim={"lr": 3e-3}, rollout=fitted)
    large = model("large", steps=25)
    model("distilled", policy={"path": small, "reference": large}, objective="opd", steps=25)
    model("rewards", policy=small, steps=120)
    ...
