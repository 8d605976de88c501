"""Whether larger groups are worth fewer tasks."""

from gnomon_lab.studies import Claim, Study

study = Study(
    question="Is a group of 8 better than a group of 2, with as many rollouts in a step?",
    why="Larger groups have a better baseline and fewer groups without a difference, smaller ones more tasks in a "
    "step.",
    base="char_count",
    settings={"steps": 40},
    arms={"8 of 32": {"group": 8, "prompts": 32}, "2 of 128": {"group": 2, "prompts": 128}},
    claims=[Claim(measure="final", arm="8 of 32", than="2 of 128", above=0.0)],
    prediction={"PASS": 0.3, "FAIL": 0.2, "INCONCLUSIVE": 0.5},
)
