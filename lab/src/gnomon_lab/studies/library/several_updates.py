"""Whether several updates to a batch save rollouts."""

from gnomon_lab.studies import Claim, Study

study = Study(
    question="Do four updates to every batch reach a higher pass@1 from the same rollouts than one?",
    why="Rollouts are the larger cost. Clipping is there to make several updates to one batch safe (Schulman et "
    "al. 2017, arXiv 1707.06347).",
    base="char_count",
    settings={"steps": 20, "objective": "grpo"},
    arms={"one": {"optim.epochs": 1}, "four": {"optim.epochs": 4}},
    claims=[Claim(measure="final", arm="four", than="one", above=0.0)],
    prediction={"PASS": 0.7, "FAIL": 0.1, "INCONCLUSIVE": 0.2},
)
