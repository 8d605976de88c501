"""Whether a policy that is right 95 times in 100 loses more errors where half of its groups continue failed replies."""

from pathlib import Path
from typing import Any

import gnomon
from gnomon_lab.studies import Claim, Study

COMMON: Any = {"env": {"signs": "+"}, "max_tokens": 32, "threads": 1}
SIZES: Any = {"prompts": 16, "quiet": True, "save": {"every": 5}}


def trained(seed: int, folder: Path) -> dict[str, float]:
    """Held-out errors, as a fraction of replies: before, and after as many rollouts with and without continuations."""

    def errors(name: str, steps: int, **own: Any) -> float:
        rest: Any = COMMON | SIZES | own
        gnomon.train("arithmetic", run=folder / name, seed=seed, steps=steps, eval={"tasks": 2}, **rest).close()
        found = gnomon.evaluate(folder / name, "arithmetic", eval={"tasks": 256, "samples": 3}, **COMMON)
        return 1 - found.pass_at[1].value

    before = errors("first", 15)
    again: Any = {"policy": str(folder / "first/checkpoints/000015"), "lr": 5e-4, "steps": 12}
    uniform = errors("uniform", **again)
    continued = errors("continued", rollout={"failure_prefix": 0.5}, **again)
    return {"before": before, "uniform": uniform, "continued": continued, "saved": uniform - continued}


study = Study(
    question="Does a policy at .95 lose a further point of errors where half of its groups continue failed replies?",
    why="At .97, most groups have no error and so no gradient, like most at .03. arXiv 2601.20829 begins in the middle "
    "of failed replies, so that groups fail more often. The sums have two numbers. The author had seen one run "
    "without continuations, with another seed: .957 after 20 steps, .977 after 40 and .984 after 50.",
    arms={"all": trained},
    seeds=range(4),
    claims=[Claim(measure="saved", arm="all", above=0.01)],
    prediction={"PASS": 0.03, "FAIL": 0.35, "INCONCLUSIVE": 0.62},
)
