"""What a long horizon costs where only its end is paid, and what shorter horizons give back."""

from gnomon.store import RunReader
from gnomon_lab.studies import Claim, Study

ROW = {"env": {"type": "gnomon_lab.chain:Chain", "questions": 4, "by_share": True}, "tasks": 128, "samples": 1}


def share(reader: RunReader) -> float:
    """Share of right answers in held-out rows of four questions, after training."""
    return float(reader.evaluations("row")[-1].body["reward"])


study = Study(
    question="Do four questions in a row teach ten points less if only a wholly right row is paid?",
    why="Long horizons keep reinforcement learning from scaling (Park et al. 2025, arXiv 2506.04168): a reward at the "
    "end of many decisions says little about each. `whole` pays a row in which all answers are right, `share` pays "
    "the share of right answers at its end, and `single` cuts the row into episodes of one question. All arms sample "
    "as many replies, and are compared on rows. The author had seen one run with seed 0 of 30 steps of `single` "
    "(single questions .20 to .38) and of `share` (.29 afterwards).",
    base="gnomon_lab.chain:Chain",
    settings={
        "max_tokens": 12, "steps": 30, "group": 8, "eval.tasks": 8, "eval.samples": 1, "eval.every": 1000,
        "eval.sets.row": ROW,
    },
    arms={
        "whole": {"prompts": 8},
        "share": {"prompts": 8, "env.by_share": True},
        "single": {"prompts": 32, "env.questions": 1},
    },
    seeds=range(1, 5),
    measures={"share": share},
    claims=[Claim(measure="share", arm=arm, than="whole", above=0.1) for arm in ("share", "single")],
    crashed={"share": 0.0},
    prediction={"PASS": 0.25, "FAIL": 0.1, "INCONCLUSIVE": 0.65},
)  # fmt: skip
