"""Whether an objective changes lengths where length earns nothing, by enumeration."""

from collections.abc import Callable

from gnomon.objectives import objective
from gnomon.theory import length_bias
from gnomon_lab.studies import Claim, Study


def bias_of(name: str) -> Callable[[int], dict[str, float]]:
    def measured(seed: int) -> dict[str, float]:
        found = length_bias(objective(name))
        return {"right answers": found.right, "wrong answers": found.wrong}

    return measured


study = Study(
    question="Does GRPO shorten right answers and lengthen wrong ones, where the reward ignores length?",
    why="Growing replies are read as longer reasoning. A divisor of each reply's own length makes them grow by itself "
    "(Liu et al. 2025, arXiv 2503.20783). The measure is the expected gradient on the logit of stopping.",
    arms={name: bias_of(name) for name in ("grpo", "dr_grpo", "dapo", "rloo")},
    exact=True,
    measures={},
    claims=[
        Claim(measure="right answers", arm="grpo", above=0.01),
        Claim(measure="wrong answers", arm="dr_grpo", than="grpo", above=0.01),
        *(
            Claim(measure=f"{kind} answers", arm=arm, within=1e-12)
            for kind in ("right", "wrong")
            for arm in ("dr_grpo", "rloo")
        ),
        *(Claim(measure="right answers", arm="grpo", than=arm) for arm in ("dr_grpo", "rloo", "dapo")),
    ],
    prediction={"PASS": 0.95, "FAIL": 0.05, "INCONCLUSIVE": 0.0},
)
