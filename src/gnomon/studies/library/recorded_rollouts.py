"""Whether TOPR learns from rollouts of the initial policy alone, and the plain policy gradient does not."""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gnomon
from gnomon.studies import Claim, Study, final, gain

SAME: dict[str, Any] = {"threads": 1, "quiet": True, "env": {"format": 0}, "rollout": {"prompts": 16, "group": 8}}
EVAL: dict[str, Any] = {
    "eval": {"tasks": 128, "samples": 2, "every": 200},
    "audit": {"acknowledge": ["replay.on_policy"]},
}


def trained(seed: int, objective: str) -> dict[str, float]:
    """Record 256 tasks with a policy that stands still; train 100 steps on these groups alone."""
    with TemporaryDirectory() as folder:
        still: dict[str, Any] = {"steps": 16, "optim": {"lr": 1e-30}, "eval": {"tasks": 1}}
        gnomon.train("char_count", run=Path(folder) / "base", seed=100 + seed, **{**SAME, **still}).close()
        rollout = {**SAME["rollout"], "recorded": str(Path(folder) / "base")}
        own: dict[str, Any] = {**SAME, **EVAL, "seed": seed, "steps": 100, "objective": objective, "rollout": rollout}
        with gnomon.train("char_count", run=Path(folder) / "own", **own) as run:
            return {"final": final(run), "gain": gain(run)}


study = Study(
    question="Does TOPR learn from rollouts of the initial policy alone, where the plain policy gradient does worse?",
    why="On fixed rollouts, a policy gradient without ratios pushes failures down without end (Le Roux et al. 2025, "
    "arXiv 2503.14286). TOPR stops at replies that the policy has given up. 2,048 rollouts, each used about six times.",
    arms={name: partial(trained, objective=name) for name in ("topr", "reinforce_centred")},
    seeds=range(6),
    claims=[
        Claim(measure="gain", arm="topr", above=0.05),
        Claim(measure="final", arm="topr", than="reinforce_centred", above=0.0),
    ],
    prediction={"PASS": 0.5, "FAIL": 0.1, "INCONCLUSIVE": 0.4},
)
