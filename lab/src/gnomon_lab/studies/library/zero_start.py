"""Whether tasks that the policy never solves can be learned alone, or beside tasks that it sometimes solves."""

from gnomon_lab.studies import Claim, Study, final_of

study = Study(
    question="Are tasks that are never solved learned only beside tasks that are sometimes solved?",
    why="A policy gradient is zero where every reward is zero. On graph search, denser rewards and other credit did "
    "not help, and easier tasks did (arXiv 2510.03971). The policy solves no countdown with four numbers, and a "
    "quarter of those with three. Both arms are evaluated on four numbers.",
    base="countdown",
    settings={"steps": 60, "eval.sets.hard.env.numbers": [4], "eval.sets.hard.every": 60},
    arms={"hard alone": {"env.numbers": [4]}, "mixed": {"env.numbers": [3, 4]}},
    seeds=range(4),
    measures={"hard": final_of("hard")},
    claims=[
        Claim(measure="hard", arm="hard alone", within=0.01),
        Claim(measure="hard", arm="mixed", above=0.2),
    ],
    crashed={"hard": 0.0},
    prediction={"PASS": 0.1, "FAIL": 0.6, "INCONCLUSIVE": 0.3},
)
