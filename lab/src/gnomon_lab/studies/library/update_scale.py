"""How the step of a group grows with its successes, on both sides of maximum likelihood."""

from functools import partial
from itertools import pairwise

from gnomon.objectives import family_weight, update_scale
from gnomon_lab.studies import Claim, Study

GROUPS = (4, 8, 16, 32)


def growth(seed: int, family: str, parameter: float) -> dict[str, float]:
    """Least and largest change of the update scale s(K) with one more success, over groups of 4 to 32."""
    steps = [
        after - before
        for group in GROUPS
        for before, after in pairwise(update_scale(family_weight(group, family=family, parameter=parameter))[1:])
    ]
    return {"least": min(steps), "largest fall": -max(steps), "size": max(map(abs, steps))}


study = Study(
    question="Does the step of a group grow with its successes below maximum likelihood, and shrink beyond it?",
    why="The expected gradient shows nothing of this: it is smooth in the parameter. The step of a single group is "
    "s(K) times the mean score of its K successes, and s changes its slope at 1 (RL2ML: Zheng 2026, arXiv 2605.30154).",
    arms={
        f"{family} {value:g}": partial(growth, family=family, parameter=value)
        for family in "AB"
        for value in (0.5, 1.0, 1.5)
    },
    exact=True,
    claims=[
        *(Claim(measure="least", arm=f"{family} 0.5") for family in "AB"),
        *(Claim(measure="size", arm=f"{family} 1", within=1e-12) for family in "AB"),
        *(Claim(measure="largest fall", arm=f"{family} 1.5") for family in "AB"),
    ],
    prediction={"PASS": 0.85, "FAIL": 0.15, "INCONCLUSIVE": 0.0},
)
