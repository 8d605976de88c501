"""Whether the majority of a group can take the place of a verifier, and for how long."""

from gnomon.store import RunReader
from gnomon_lab.studies import Claim, Study
from gnomon.comparison.measures import curve


def rise(reader: RunReader) -> float:
    """The best held-out pass@1 of all evaluations, less that before training."""
    values = [value for _, value in curve(reader)]
    return max(values) - values[0]


def fall(reader: RunReader) -> float:
    """The best held-out pass@1 of all evaluations, less the last."""
    values = [value for _, value in curve(reader)]
    return max(values) - values[-1]


study = Study(
    question="Does a reward by majority raise pass@1 by ten points and then lower it by ten?",
    why="A policy that rewards its own consensus improved at first and collapsed later (SRT, arXiv 2505.21444). "
    "Evaluations are judged by the true verifier. The author had seen one run on letters, where chance is a quarter.",
    base="arithmetic",
    settings={"rollout.judged_by": "majority", "steps": 80, "prompts": 16, "eval.every": 8, "eval.tasks": 128},
    arms={"majority": {}},
    seeds=range(6),
    measures={"rise": rise, "fall": fall},
    claims=[Claim(measure="rise", arm="majority", above=0.1), Claim(measure="fall", arm="majority", above=0.1)],
    crashed={"rise": 0.0, "fall": 0.0},
    prediction={"PASS": 0.2, "FAIL": 0.5, "INCONCLUSIVE": 0.3},
)
