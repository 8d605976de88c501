"""Whether mutations of tasks that are never solved lead to their solution."""

from gnomon_lab.studies import Claim, Study

study = Study(
    question="Are countdowns that are never solved learned from their mutations, and not from themselves?",
    why="AlphaProof (2025, doi 10.1038/s41586-025-09833-y) trains on variants of one hard problem. The policy "
    "never solves a countdown with four numbers. A mutation changes a number, removes one, or changes the target. Both "
    "arms are evaluated on held-out tasks with four numbers.",
    base="countdown",
    settings={"env.numbers": [4], "steps": 60, "eval.every": 60, "threads": 1},
    arms={"hard tasks": {}, "with mutations": {"env.mutations": 15}},
    seeds=range(4),
    claims=[
        Claim(measure="final", arm="hard tasks", within=0.02),
        Claim(measure="final", arm="with mutations", above=0.3),
    ],
    prediction={"PASS": 0.15, "FAIL": 0.6, "INCONCLUSIVE": 0.25},
)
