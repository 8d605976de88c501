"""Whether the length bias of GRPO is seen in training."""

from statistics import fmean

from gnomon.store import RunReader
from gnomon_lab.studies import Claim, Study, final


def wrong_length(reader: RunReader) -> float:
    """Mean tokens of wrong replies in the last ten steps."""
    rows = [row for row in reader.rollout_rows() if row.step is not None and row.step >= reader.steps - 10]
    return fmean(row.tokens for row in rows if row.status != "correct" and row.tokens is not None)


study = Study(
    question="Do wrong replies grow longer under GRPO than under Dr. GRPO?",
    why="The bias of 1/length is exact in expectation (length-bias). It has to show in training too, at an "
    "equal share of right answers.",
    base="char_count",
    settings={"steps": 40},
    arms={"grpo": {"objective": "grpo"}, "dr_grpo": {"objective": "dr_grpo"}},
    seeds=tuple(range(8)),
    measures={"tokens of wrong replies": wrong_length, "final": final},
    claims=[
        Claim(measure="tokens of wrong replies", arm="grpo", than="dr_grpo", above=0.0),
        Claim(measure="final", arm="grpo", than="dr_grpo", within=0.05),
    ],
    crashed={"final": 0.0},
    prediction={"PASS": 0.35, "FAIL": 0.15, "INCONCLUSIVE": 0.5},
)
