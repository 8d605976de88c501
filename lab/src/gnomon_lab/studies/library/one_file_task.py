"""Whether a new task is one file that passes the conformance suite and trains."""

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import gnomon
from gnomon.config import Env
from gnomon.envs.check import check_env
from gnomon.run.find import make_env
from gnomon.envs.scaffold import new_env
from gnomon_lab.studies import Claim, Study


def made(seed: int, turns: bool) -> dict[str, float]:
    """Files and lines of a task from the template, whether it passes every check, and whether it trains."""
    with tempfile.TemporaryDirectory() as scratch:
        file, kind = new_env("my_task", Path(scratch), turns)
        checked = check_env(make_env(Env(type=f"{file}:{kind}")))
        sizes: Any = {"rollout": {"prompts": 2, "group": 2, "max_tokens": 12}, "eval": {"tasks": 1}}
        run = gnomon.train(f"{file}:{kind}", run=Path(scratch) / "r", steps=1, quiet=True, **sizes)
        size = {"files": len([*Path(scratch).glob("*.py")]), "lines": len(file.read_text().splitlines())}
        return {**size, "passes": checked.passed, "steps": run.steps}


ARMS = {"one turn": partial(made, turns=False), "several turns": partial(made, turns=True)}
study = Study(
    question="Is a new task one file of at most 60 lines that passes every check and trains, with one turn or several?",
    why="In other trainers a task is a data set, a reward function and a script, in three places with three formats.",
    arms=ARMS, exact=True,
    claims=[
        *(Claim(measure=name, arm=arm, above=0.5) for arm in ARMS for name in ("passes", "steps")),
        *(Claim(measure="files", arm=arm, within=1.5) for arm in ARMS),
        *(Claim(measure="lines", arm=arm, within=60.5) for arm in ARMS),
    ],
    prediction={"PASS": 0.9, "FAIL": 0.1, "INCONCLUSIVE": 0.0},
)  # fmt: skip
