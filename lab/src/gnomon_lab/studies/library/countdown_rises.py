"""Whether training teaches the shipped policy countdown."""

from gnomon_lab.studies import Claim, Study, gain

study = Study(
    question="Does training raise held-out accuracy on countdown with three numbers by 30 points?",
    why="TinyZero's task. The tasks are held out; the policy has practised arithmetic, and tasks of the train split.",
    base="countdown",
    settings={"steps": 40},
    arms={"dr_grpo": {"objective": "dr_grpo"}},
    seeds=range(5),
    measures={"gain": gain},
    claims=[Claim(measure="gain", arm="dr_grpo", above=0.3)],
    crashed={"gain": 0.0},
    prediction={"PASS": 0.95, "FAIL": 0.01, "INCONCLUSIVE": 0.04},
)
