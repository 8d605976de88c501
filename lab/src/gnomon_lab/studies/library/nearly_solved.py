"""Whether a task solved 99 times in 100 is the mirror of one solved once in 100, from the weights of success counts."""

from functools import partial

from gnomon.objectives import objective
from gnomon.theory import count_weight
from gnomon_lab.studies import Claim, Study

GROUP, RARE = 8, 0.01


def ends(seed: int, name: str) -> dict[str, float]:
    """w(p) at both ends, and the share of groups without a difference in reward there."""
    weight = count_weight(objective(name), GROUP)
    assert weight is not None
    first, last = weight.weight_at(RARE), weight.weight_at(1 - RARE)
    flat = [p**GROUP + (1 - p) ** GROUP for p in (RARE, 1 - RARE)]
    return {"ratio": first / last, "flat": flat[0], "flat difference": flat[0] - flat[1]}


study = Study(
    question="Is going from 99 to 100 per cent the mirror of going from 0 to 1 per cent?",
    why="A group whose replies are all wrong teaches nothing, and so does one whose replies are all right; they are "
    "equally frequent at both ends. What an objective makes of the other groups need not be symmetrical: `ratio` is "
    "the weight of a task solved once in 100, over that of one solved 99 times in 100. Groups of 8.",
    arms={name: partial(ends, name=name) for name in ("rloo", "maxrl_control", "pkpo")},
    exact=True,
    claims=[
        Claim(measure="flat", arm="rloo", above=0.9),
        Claim(measure="flat difference", arm="rloo", within=1e-12),
        Claim(measure="ratio", arm="maxrl_control", than="rloo", above=5.0),
        Claim(measure="ratio", arm="pkpo", than="rloo", above=5.0),
    ],
    prediction={"PASS": 0.9, "FAIL": 0.1, "INCONCLUSIVE": 0.0},
)
