"""Whether continued failures repair a nearly solved task that plain sampling leaves as it is."""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gnomon
from gnomon.launch.export import export
from gnomon.studies import Claim, Study, final, gain

ENV = {"most": 1, "length": [2, 4], "format": 0}
SAME: dict[str, Any] = {"threads": 1, "quiet": True, "env": ENV, "objective": "rloo"}


def trained(seed: int, share: float) -> dict[str, float]:
    """Train 60 steps until nearly all replies are right, export the policy, and train it 40 steps more."""
    with TemporaryDirectory() as folder:
        first, policy = Path(folder) / "first", Path(folder) / "policy"
        gnomon.train("char_count", run=first, seed=seed, **SAME, steps=60).close()
        export(str(first), policy)
        more: Any = {"rollout": {"failure_prefix": share}, "eval": {"samples": 4}, "optim": {"lr": 3e-4}}
        with gnomon.train("char_count", run=f"{folder}/own", policy=policy, steps=40, seed=seed, **SAME, **more) as run:
            before, after = 1 - final(run) + gain(run), 1 - final(run)
            return {"before": before, "error": after, "kept": after / before}


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
