"""Whether a large reward for the format keeps a policy from learning the answer."""

from gnomon_lab.studies import Claim, Study

study = Study(
    question="Does a reward of .5 for a readable answer halve the accuracy that .1 reaches?",
    why="TinyZero pays .1 for the format and 1 for the answer. A larger share could hold the policy at replies "
    "that are readable and wrong. The shipped policy already knows the format, so only the noise of the reward "
    "can matter here.",
    base="char_count",
    settings={"steps": 40},
    arms={f"{value:g}": {"env.format": value} for value in (0.0, 0.1, 0.5)},
    claims=[
        Claim(measure="final", arm="0.1", than="0.5", above=0.2),
        Claim(measure="final", arm="0.1", than="0", within=0.05),
    ],
    prediction={"PASS": 0.05, "FAIL": 0.6, "INCONCLUSIVE": 0.35},
)
