"""Whether continued failures repair a nearly solved task that plain sampling leaves as it is."""

from functools import partial
from pathlib import Path
from typing import Any

import gnomon
from gnomon.launch.export import export
from gnomon.studies import Claim, Study, final

EASY = {"most": 1, "length": [2, 4], "format": 0}
SAME: Any = {"threads": 1, "quiet": True, "env": EASY, "objective": "rloo"}


def trained(seed: int, folder: Path, share: float) -> dict[str, float]:
    """Train 60 steps until nearly all replies are right, export the policy, and train it 40 steps more."""
    gnomon.train("char_count", run=folder / "first", seed=seed, steps=60, eval={"tasks": 1}, **SAME).close()
    export(str(folder / "first"), folder / "policy")
    own: Any = {"policy": str(folder / "policy"), "optim": {"lr": 3e-4}, "steps": 40, "eval": {"samples": 4}, **SAME}
    with gnomon.train(
        "char_count", run=folder / "own", seed=100 + seed, rollout={"failure_prefix": share}, **own
    ) as run:
        assert run.baseline is not None
        before = run.baseline["pass_at"]["1"]["value"]
        return {"before": before, "error": 1 - final(run), "kept": (1 - final(run)) / (1 - before)}


study = Study(
    question="Do continuations of failed replies halve the error of a nearly solved task at equal updates?",
    why="At a success rate of 0.97, 78 % of the groups of 8 have no failure and no gradient (arXiv 2601.20829). "
    "`kept` is the error after 40 more steps over that before them.",
    arms={"plain": partial(trained, share=0.0), "failures": partial(trained, share=0.5)},
    seeds=range(6),
    claims=[
        Claim(measure="kept", arm="plain", than="failures", above=0.0),
        Claim(measure="kept", arm="failures", within=0.5),
    ],
    prediction={"PASS": 0.15, "FAIL": 0.45, "INCONCLUSIVE": 0.4},
)
