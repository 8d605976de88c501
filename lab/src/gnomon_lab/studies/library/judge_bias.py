"""Whether false positives of a judge cost a hard task more than as many false negatives, from success-count weights."""

from functools import partial
from math import log

from gnomon.objectives import objective
from gnomon.theory import count_weight
from gnomon_lab.studies import Claim, Study

GROUP, HARD, RATE = 8, 0.05, 0.1


def left(seed: int, name: str) -> dict[str, float]:
    """What a hard task keeps of its weight w under each kind of error, and the logarithm of their ratio.

    A verdict is independent of the reply given the truth, so a judge that accepts a share a of the wrong replies and
    refuses a share b of the right ones leaves (1 − a − b)·w(q), where q = a + (1 − a − b)·p is what it accepts.
    """
    weight = count_weight(objective(name), GROUP)
    assert weight is not None
    positives, negatives = ((1 - RATE) * weight.weight_at(q) for q in (RATE + (1 - RATE) * HARD, (1 - RATE) * HARD))
    clean = weight.weight_at(HARD)
    kept = {"false positives": positives / clean, "false negatives": negatives / clean}
    return kept | {"log ratio": log(negatives / positives)}


study = Study(
    question="Do false positives cost a hard task half more than false negatives under maximum likelihood alone?",
    why="Verifiers err in both directions, and are usually described by one accuracy. For RLOO both errors scale the "
    "gradient by one less their rates. Objectives that weigh a task by its rate of success see the judge's rate. The "
    "task is solved once in 20, groups have 8 replies, a judge errs on a tenth of one kind of reply. The author saw "
    "these numbers in a first version, of which another arm crashed, and kept its lines: 0.4 is the log of 1.5.",
    arms={name: partial(left, name=name) for name in ("rloo", "maxrl_control")},
    exact=True,
    claims=[
        Claim(measure="log ratio", arm="rloo", within=1e-9),
        Claim(measure="log ratio", arm="maxrl_control", above=0.4),
    ],
    prediction={"PASS": 0.75, "FAIL": 0.25, "INCONCLUSIVE": 0.0},
)
