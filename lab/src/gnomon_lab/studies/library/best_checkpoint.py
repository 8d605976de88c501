"""How far the best of several checkpoints on a small benchmark is above the truth, if training does nothing."""

from functools import partial
from math import comb, fsum

from gnomon_lab.studies import Claim, Study

CHECKPOINTS, TASKS, TRUTH = 10, 30, 0.4


def inflation(seed: int, replies: int) -> dict[str, float]:
    """E[max] − p of the pass@1 of ten equal checkpoints, by the binomial law: every reply is right with chance .4."""
    count, below, best = TASKS * replies, 0.0, []
    for right in range(count + 1):
        chance = comb(count, right) * TRUTH**right * (1 - TRUTH) ** (count - right)
        best.append(((below + chance) ** CHECKPOINTS - below**CHECKPOINTS) * right / count)
        below += chance
    return {"inflation": fsum(best) - TRUTH}


study = Study(
    question="Is the best of ten equal checkpoints ten points too high with 1 reply to 30 tasks, and under 3 with 32?",
    why="Results on AIME are often those of the best checkpoint, and gains of a few points are reported. On 30 tasks, "
    "seeds alone move pass@1 by several points (Hochlehnert et al. 2025, arXiv 2504.07086). Here no checkpoint is "
    "better than another, so all of the gain is chance. Tasks are equally hard, which is the worst case.",
    arms={f"{replies} replies": partial(inflation, replies=replies) for replies in (1, 4, 32)},
    exact=True,
    claims=[
        Claim(measure="inflation", arm="1 replies", above=0.1),
        Claim(measure="inflation", arm="4 replies", above=0.05),
        Claim(measure="inflation", arm="32 replies", within=0.03),
    ],
    prediction={"PASS": 0.9, "FAIL": 0.1, "INCONCLUSIVE": 0.0},
)
