"""Whether accuracy on held-out tasks can be predicted from the number of train tasks."""

from math import log2
from pathlib import Path
from statistics import linear_regression
from typing import Any

import gnomon
from gnomon_lab.studies import Claim, Study
from gnomon.comparison.measures import final

COUNTS = (1, 4, 16, 64, 256)
LEFT_OUT = 128
COMMON: Any = {"steps": 40, "prompts": 16, "quiet": True, "threads": 1, "eval": {"every": 40, "tasks": 256}}


def trained(seed: int, folder: Path) -> dict[str, float]:
    """Held-out pass@1 by the number of train tasks, and the error of the line through the others at 128."""
    found = {}
    for count in (*COUNTS, LEFT_OUT):
        rollout = {"tasks": list(range(count))}
        with gnomon.train("char_count", run=folder / str(count), seed=seed, rollout=rollout, **COMMON) as run:
            found[count] = final(run)
    slope, start = linear_regression([log2(count) for count in COUNTS], [found[count] for count in COUNTS])
    error = start + slope * log2(LEFT_OUT) - found[LEFT_OUT]
    return {f"of {count}": value for count, value in found.items()} | {"error": error, "per doubling": slope}


study = Study(
    question="Does pass@1 of 1 to 256 train tasks predict that of 128 within five points, and grow with their number?",
    why="Guides ask how many examples are needed. The line is fitted over the logarithm of their number. All meet the "
    "same held-out tasks.",
    arms={"all": trained},
    seeds=range(5),
    claims=[Claim(measure="error", arm="all", within=0.05), Claim(measure="per doubling", arm="all", above=0.0)],
    prediction={"PASS": 0.3, "FAIL": 0.3, "INCONCLUSIVE": 0.4},
)
