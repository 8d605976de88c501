"""What dividing by a group's standard deviation does to easy and hard tasks, from the weights of success counts."""

from functools import partial

from gnomon.objectives import objective
from gnomon.theory.curves import equal_lengths
from gnomon_lab.studies import Claim, Study

GROUP = 8


def weights(seed: int, name: str) -> dict[str, float]:
    """w(p) in E[g] = w(p)·∇p of a task that the policy solves with probability p, over its value at one half."""
    weight = equal_lengths(objective(name), GROUP)
    assert weight is not None
    return {f"w({p:g})/w(.5)": weight.weight_at(p) / weight.weight_at(0.5) for p in (0.01, 0.05, 0.95, 0.99)}


study = Study(
    question="Does dividing by a group's standard deviation double the weight of very easy and very hard tasks?",
    why="GRPO divides by it and Dr. GRPO does not (Liu et al. 2025, arXiv 2503.20783). With weights of 1 at every "
    "rate of success, an objective maximises the mean rate of success. Groups of 8, replies of one length.",
    arms={name: partial(weights, name=name) for name in ("grpo", "dr_grpo", "rloo")},
    exact=True,
    claims=[
        Claim(measure="w(0.05)/w(.5)", arm="grpo", above=2.0),
        Claim(measure="w(0.95)/w(.5)", arm="grpo", above=2.0),
        *(Claim(measure="w(0.01)/w(.5)", arm="grpo", than=arm, above=1.0) for arm in ("dr_grpo", "rloo")),
        *(Claim(measure=f"w({p})/w(.5)", arm="dr_grpo", than="rloo", within=1e-12) for p in (0.01, 0.99)),
    ],
    prediction={"PASS": 0.6, "FAIL": 0.4, "INCONCLUSIVE": 0.0},
)
