"""Whether training teaches the shipped policy to count letters."""

from gnomon_lab.studies import Claim, Study, gain

study = Study(
    question="Does training raise held-out accuracy on counting letters by ten points?",
    why="verl's recipe goes from .435 to .6 with SmolLM2-135M after supervised training. The shipped policy starts "
    "lower.",
    base="char_count",
    settings={"steps": 20},
    arms={"dr_grpo": {"objective": "dr_grpo"}},
    measures={"gain": gain},
    claims=[Claim(measure="gain", arm="dr_grpo", above=0.1)],
    crashed={"gain": 0.0},
    prediction={"PASS": 0.97, "FAIL": 0.01, "INCONCLUSIVE": 0.02},
)
