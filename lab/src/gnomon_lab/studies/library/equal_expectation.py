"""Two estimators of one expected gradient, and how far each scatters, by enumeration."""

from functools import partial

import torch

from gnomon.objectives import maxrl, maxrl_control, objective
from gnomon.theory import report
from gnomon.theory.exact import moments
from gnomon.theory.world import correct, outcomes, world
from gnomon_lab.studies import Claim, Study

GROUP = 4


def scatter(seed: int, name: str) -> dict[str, float]:
    """Distance of the expected gradient from that of the pair's other member, and √variance over its norm."""
    place = world()
    policy = place.logits()
    possible = outcomes(place, policy, correct)
    plain, control = (
        moments(row, place, policy=policy, behavior=policy, possible=possible, group=GROUP).mean
        for row in (maxrl(), maxrl_control())
    )
    return {"distance": float(torch.dist(plain, control)), "noise": report(objective(name), group=GROUP).noise}


study = Study(
    question="Can two estimators with equal expected gradients differ in how far a single update scatters?",
    why="What an objective maximises says nothing of how noisy its steps are: both have to be shown for a run. MaxRL "
    "with and without its control variate (Tajwar et al. 2026, arXiv 2602.02710), in groups of 4.",
    arms={name: partial(scatter, name=name) for name in ("maxrl", "maxrl_control")},
    exact=True,
    claims=[
        Claim(measure="distance", arm="maxrl", within=1e-12),
        Claim(measure="noise", arm="maxrl", than="maxrl_control", above=0.05),
    ],
    prediction={"PASS": 0.85, "FAIL": 0.15, "INCONCLUSIVE": 0.0},
)
