"""Whether learning to predict the environment's text makes a tool's use quicker to learn."""

from itertools import pairwise
from math import log

from gnomon.store import RunReader
from gnomon_lab.studies import Claim, Study
from gnomon.comparison.measures import curve

GOAL, STEPS = 0.5, 40


def speed(reader: RunReader) -> float:
    """Minus the logarithm of the steps to a held-out pass@1 of one half; a run that misses it counts as 40 steps."""
    known = curve(reader)
    for (before, low), (after, high) in pairwise(known):
        if high >= GOAL:
            return -log(before + (after - before) * max(0.0, (GOAL - low) / (high - low)))
    return -log(STEPS)


study = Study(
    question="Does predicting what the calculator writes make its use 1.3 times as quick to learn?",
    why="A person learns from all that is seen, and not from the outcome alone. `echo` adds the likelihood of "
    "observations to GRPO. The difference of two logarithms is that of a ratio: log 1.3 is 0.262.",
    base="calculator",
    settings={"steps": STEPS, "prompts": 8, "eval.every": 2, "eval.tasks": 64, "threads": 1},
    arms={"grpo": {"objective": "grpo"}, "echo": {"objective": "echo"}},
    seeds=range(6),
    measures={"speed": speed},
    claims=[Claim(measure="speed", arm="echo", than="grpo", above=log(1.3))],
    crashed={"speed": -log(STEPS)},
    prediction={"PASS": 0.15, "FAIL": 0.35, "INCONCLUSIVE": 0.5},
)
