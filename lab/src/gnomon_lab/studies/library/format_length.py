"""Whether a reward for the format alone changes the length of replies."""

import statistics

from gnomon.store import RunReader
from gnomon_lab.studies import Claim, Study, last_steps


def shorter(reader: RunReader) -> float:
    """Fraction by which replies of the last five steps are shorter than those of the first five."""
    first = statistics.fmean(step["metrics"]["length"] for step in reader.metrics()[:5])
    return 1 - last_steps("length", 5)(reader) / first


study = Study(
    question="Does a reward for the format alone make replies a fifth shorter, where no answer is ever right?",
    why="The length of replies is read as a sign of reasoning. It may follow the rewards instead: first the format is "
    "learned, then the answers (Liu et al. 2025, arXiv 2503.20783). The policy never solves a countdown with four "
    "numbers, so the format is all that is rewarded. Four runs of another study with this reward had become shorter.",
    base="countdown",
    settings={"env.numbers": [4], "steps": 40, "eval.every": 40, "eval.tasks": 32, "threads": 1},
    arms={"format": {"env.format": 0.1}, "no reward": {"env.format": 0.0}},
    seeds=range(10, 15),
    measures={"shorter": shorter, "correct": last_steps("correct", 40)},
    claims=[
        Claim(measure="shorter", arm="format", above=0.2),
        Claim(measure="shorter", arm="no reward", within=0.1),
        Claim(measure="correct", arm="format", within=0.01),
    ],
    prediction={"PASS": 0.7, "FAIL": 0.1, "INCONCLUSIVE": 0.2},
)
