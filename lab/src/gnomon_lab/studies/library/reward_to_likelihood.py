"""Whether one parameter leads from expected reward to maximum likelihood and beyond, without bias on the way."""

from functools import partial

from gnomon.objectives import rl2ml
from gnomon.theory import GRID, count_weight, report
from gnomon_lab.studies import Claim, Study

GROUP = 6


def measured(seed: int, parameter: float) -> dict[str, float]:
    """The estimator's bias by enumeration, its distance from both ends, and the weight of a task solved 1 in 20."""
    row = rl2ml("A", parameter)
    weight = count_weight(row, GROUP)
    assert weight is not None
    w = dict(zip(GRID, map(weight.weight_at, GRID), strict=True))
    return {
        "bias": max(report(row, group=group).bias for group in (2, 3, 4)),
        "from reward": max(abs(value - 1) for value in w.values()),
        "from likelihood": max(abs(value - (1 - (1 - p) ** GROUP) / p) for p, value in w.items()),
        "w(.05)/w(.5)": w[0.05] / w[0.5],
    }


study = Study(
    question="Does one parameter lead from expected reward to maximum likelihood, and beyond, without bias?",
    why="RL2ML (Zheng 2026, arXiv 2605.30154) joins REINFORCE at 0 and MaxRL (Tajwar et al. 2026, arXiv 2602.02710) at "
    "1. If so, the choice between them is a search over one number. Bias is relative to the closed form.",
    arms={f"{value:g}": partial(measured, parameter=value) for value in (0.0, 0.5, 1.0, 1.5)},
    exact=True,
    claims=[
        *(Claim(measure="bias", arm=arm, within=1e-9) for arm in ("0", "0.5", "1", "1.5")),
        Claim(measure="from reward", arm="0", within=1e-12),
        Claim(measure="from likelihood", arm="1", within=1e-12),
        *(Claim(measure="w(.05)/w(.5)", arm=b, than=a) for a, b in (("0", "0.5"), ("0.5", "1"), ("1", "1.5"))),
    ],
    prediction={"PASS": 0.9, "FAIL": 0.1, "INCONCLUSIVE": 0.0},
)
