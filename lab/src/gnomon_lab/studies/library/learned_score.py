"""What a policy learns from the score of a reward model with a classification head, with the truth beside it."""

from pathlib import Path
from statistics import fmean
from typing import Any

import gnomon
from gnomon.envs import CharCount
from gnomon_lab.reward_model import KNOWN, fit, pairwise, replies
from gnomon_lab.studies import Claim, Study
from gnomon.comparison.measures import curve

SCORING, STEPS = "gnomon_lab.reward_model:Scoring", 16
COMMON: Any = {"quiet": True, "threads": 1, "max_tokens": 32, "eval": {"tasks": 64, "every": 4}}
SCORED: Any = {"audit": {"acknowledge": KNOWN}, "workers": {"count": 1, "seconds": 20, "memory_mib": 8192}}


def scored(seed: int, folder: Path) -> dict[str, float]:
    """Gains of score and truth; how well scores tell right from wrong; fall of pass@1 from its highest evaluation."""
    first = COMMON | {"prompts": 128, "group": 8, "eval": {"tasks": 2}}
    with gnomon.train("char_count", run=folder / "data", seed=seed, steps=1, **first) as data:
        fit(replies(data, CharCount(), 0), folder / "model", seed=seed)
    own = COMMON | SCORED | {"env": {"model": str(folder / "model")}, "steps": STEPS}
    with gnomon.train(SCORING, run=folder / "run", seed=seed, **own) as run:
        rows, values = [(row.step, row.body) for row in run.records("rollout")], [value for _, value in curve(run)]
    ends = [[body for step, body in rows if abs((step or 0) - at) < 2] for at in (0, STEPS - 1)]
    scores = [[body["reward"] for body in end] for end in ends]
    tells = [pairwise(s, [b["status"] == "correct" for b in end]) for s, end in zip(scores, ends, strict=True)]
    fall = {"fall": max(values) - values[-1], "pairs": tells[0], "pairs last": tells[1]}
    return fall | {"truth": values[-1] - values[0], "score": fmean(scores[1]) - fmean(scores[0])}


study = Study(
    question="Does a score of a reward model raise true accuracy by five points, and the score by ten?",
    why="The head is fitted to 1,024 replies of the first policy, and training leaves these (arXiv 2210.10760).",
    arms={"score": scored},
    seeds=range(3),
    claims=[Claim(measure="truth", arm="score", above=0.05), Claim(measure="score", arm="score", above=0.1)],
    prediction={"PASS": 0.3, "FAIL": 0.15, "INCONCLUSIVE": 0.55},
)
