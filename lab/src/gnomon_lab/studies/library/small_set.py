"""Whether a sound objective solves a small set of tasks that it trains on."""

from gnomon_lab.studies import Claim, Study, final, last_steps

study = Study(
    question="Does every common objective reach a train accuracy of .95 on 64 tasks?",
    why="A sound algorithm must solve a small set on which it trains for many epochs (Qi et al. 2025, arXiv "
    "2510.26788). One that does not has a bug, or collapses.",
    base="char_count",
    settings={"steps": 80, "rollout.tasks": list(range(64))},
    arms={name: {"objective": name} for name in ("dr_grpo", "grpo", "rloo")},
    seeds=range(5),
    measures={"train accuracy": last_steps("correct", 5), "final": final},
    claims=[Claim(measure="train accuracy", arm=name, above=0.95) for name in ("dr_grpo", "grpo", "rloo")],
    crashed={"train accuracy": 0.0},
    prediction={"PASS": 0.5, "FAIL": 0.2, "INCONCLUSIVE": 0.3},
)
