"""What a policy learns from the score of a judge that cannot judge, with the truth beside it."""

from pathlib import Path
from statistics import fmean
from typing import Any

import gnomon
from gnomon.models import smollm2
from gnomon_lab.reward_model import KNOWN, pairwise
from gnomon_lab.studies import Claim, Study, gain_of

STEPS, WINDOW = 16, 4
SETTINGS: Any = {
    "quiet": True, "threads": 1, "steps": STEPS, "prompts": 4, "group": 8, "max_tokens": 16,
    "eval": {"tasks": 1, "every": WINDOW, "sets": {"truth": {"env": "char_count", "tasks": 128, "samples": 4}}},
    "audit": {"acknowledge": KNOWN}, "workers": {"count": 1, "seconds": 60, "memory_mib": 8192},
}  # fmt: skip


def judged(seed: int, folder: Path) -> dict[str, float]:
    """Gains of score and truth, and how often the judge prefers the right one of two replies to be trained on."""
    env = {"model": str(smollm2.folder())}
    with gnomon.train("gnomon_lab.judge:Judging", env=env, run=folder / "run", seed=seed, **SETTINGS) as run:
        rows, truth = [(row.step or 0, row.body) for row in run.records("rollout")], gain_of("truth")(run)
    late = [body["reward"] for step, body in rows if step >= STEPS - WINDOW]
    score = fmean(late) - fmean(body["reward"] for step, body in rows if step < WINDOW)
    pairs = pairwise([body["reward"] for _, body in rows], [body["status"] == "correct" for _, body in rows])
    return {"score": score, "truth": truth, "pairs": pairs}


study = Study(
    question="Does training on the score of SmolLM2 as a judge raise it, and accuracy by less than five points?",
    why="SmolLM2 tells right sums from wrong ones at chance (smollm2-judge). A policy can still learn what the judge "
    "likes. The policy is the tiny one, on letters to count; the reward is P(Yes) against P(No), and char_count itself "
    "tells the truth on held-out tasks. Before, the author had seen two steps of another seed, for their cost.",
    arms={"judge": judged},
    seeds=range(5),
    claims=[Claim(measure="score", arm="judge", above=0.01), Claim(measure="truth", arm="judge", within=0.05)],
    prediction={"PASS": 0.15, "FAIL": 0.2, "INCONCLUSIVE": 0.65},
)
