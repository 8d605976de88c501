"""Whether a policy that was never taught its train tasks learns them and held-out tasks equally well."""

from statistics import fmean

from gnomon.store import RunReader
from gnomon_lab.studies import Claim, Study, final


def gap(reader: RunReader) -> float:
    """Share of correct rollouts of the last ten steps less held-out pass@1 after training."""
    return fmean(step["metrics"]["correct"] for step in list(reader.metrics())[-10:]) - final(reader)


study = Study(
    question="Does a policy end equally well on train and held-out tasks if its corpus had none of either?",
    why="The corpus of `tiny` repeats the train tasks of countdown, which held-out tasks are not among. `tiny-fresh` "
    "was taught other tasks than those of env.fresh=true. Equal means within five points, unequal above five.",
    base="countdown",
    settings={"steps": 60, "eval.every": 60, "eval.tasks": 256},
    arms={"tiny": {}, "tiny-fresh": {"policy": "tiny-fresh", "env.fresh": True}},
    seeds=range(5),
    measures={"gap": gap, "final": final},
    claims=[
        Claim(measure="gap", arm="tiny-fresh", within=0.05),
        Claim(measure="gap", arm="tiny", above=0.05),
    ],
    crashed={"gap": 1.0, "final": 0.0},
    prediction={"PASS": 0.5, "FAIL": 0.1, "INCONCLUSIVE": 0.4},
)
