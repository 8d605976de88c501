"""Whether a small model gains more from a larger one that was trained by rewards than from the rewards."""

from pathlib import Path
from typing import Any

import gnomon
from gnomon.export.model import export
from gnomon.plans.flops import step_flops
from gnomon_lab.studies import Claim, Study, at_flops, final
from gnomon_lab.tiny_policy.shallow import shallow

COMMON: Any = {"quiet": True, "threads": 1, "prompts": 16, "eval": {"every": 20, "tasks": 128, "samples": 2}}


def trained(seed: int, folder: Path) -> dict[str, float]:
    """Held-out pass@1 of the small model: distilled, and trained by rewards with as many operations in all."""

    def run(name: str, **settings: Any) -> gnomon.RunReader:
        return gnomon.train("char_count", run=folder / name, seed=seed, **COMMON, **settings)

    small = str(shallow(folder / "small", "char_count", seed=seed))
    large = run("large", steps=25)
    export(str(folder / "large"), folder / "teacher")
    student = run("distilled", policy={"path": small, "reference": str(folder / "teacher")}, objective="opd", steps=25)
    alone = run("rewards", policy=small, steps=150)
    spent = sum(step.total for reader in (large, student) for step in step_flops(reader))
    spent += sum(2 * step.sampled for step in step_flops(student))  # The teacher reads them with twice the layers.
    found = {"distilled": final(student), "rewards": at_flops(spent)(alone)}
    return found | {"difference": found["distilled"] - found["rewards"]}


study = Study(
    question="Is a small model better by five points after distillation than after as many operations with rewards?",
    why="R1 (arXiv 2501.12948) distilled small models from a large one and found it better than rewards. The large "
    "model is the shipped policy, the small one two of its four layers. What trained the large one counts too. The "
    "author had seen seed 100, where rewards were better.",
    arms={"all": trained}, seeds=range(5),
    claims=[Claim(measure="difference", arm="all", above=0.05)],
    prediction={"PASS": 0.03, "FAIL": 0.85, "INCONCLUSIVE": 0.12},
)  # fmt: skip
