"""Whether TOPR learns from rollouts of the initial policy alone, and the plain policy gradient does not."""

from functools import partial
from pathlib import Path
from typing import Any

import gnomon
from gnomon_lab.studies import Claim, Study, final, gain

SIZES = {"prompts": 16, "group": 8}
SAME: Any = {"threads": 1, "quiet": True, "env": {"format": 0}}


def trained(seed: int, folder: Path, objective: str) -> dict[str, float]:
    """Record 256 tasks with a policy that stands still; train 100 steps on these groups alone."""
    still: Any = {"steps": 16, "optim": {"lr": 1e-30}, "eval": {"tasks": 1}, "rollout": SIZES, **SAME}
    gnomon.train("char_count", run=folder / "base", seed=100 + seed, **still).close()
    rollout = {**SIZES, "recorded": str(folder / "base"), "replay": 1.0}
    own: Any = {"steps": 100, "objective": objective, "rollout": rollout, "eval": {"tasks": 128, "samples": 2}, **SAME}
    own["audit"] = {"acknowledge": ["replay.on_policy"]}
    with gnomon.train("char_count", run=folder / "own", seed=seed, **own) as run:
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
    crashed={"final": 0.0, "gain": 0.0},
    prediction={"PASS": 0.5, "FAIL": 0.1, "INCONCLUSIVE": 0.4},
)
