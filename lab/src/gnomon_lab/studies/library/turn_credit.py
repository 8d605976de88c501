"""Whether credit for each turn shortens episodes more than credit for the whole episode."""

import math
import statistics

from gnomon.store import RunReader
from gnomon_lab.studies import Claim, Study, final

GUESSES = 4


def log_guesses(reader: RunReader) -> float:
    """Natural logarithm of the mean guesses of a held-out episode after training; an unsolved one counts as 5."""
    bodies = [record.body for record in reader.records("held_out") if record.step == reader.steps]
    return math.log(statistics.fmean(
        len(body.get("turns", [0])) if body["status"] == "correct" else GUESSES + 1 for body in bodies
    ))  # fmt: skip


study = Study(
    question="Does discounted credit for turns need 15 % fewer guesses than credit for whole episodes?",
    why="GEM (Liu et al. 2025, arXiv 2510.01051) credits turns by returns with a discount and normalises them over the "
    "batch (ReBN). GRPO credits all turns of an episode alike, so it has no reason to finish early. The game is to "
    "guess a number from 1 to 8 in four guesses. In a benchmark with the seeds 0 to 2, GRPO needed fewer guesses.",
    base="guess_number",
    settings={"env.largest": 8, "env.guesses": GUESSES, "max_tokens": 16, "prompts": 16, "group": 8, "steps": 60,
              "eval.every": 60, "eval.tasks": 256, "threads": 1},
    arms={"turns": {"objective": "rebn", "objective.gamma": 0.8}, "episodes": {"objective": "grpo"}},
    seeds=range(3, 11),
    measures={"log guesses": log_guesses, "final": final},
    claims=[Claim(measure="log guesses", arm="episodes", than="turns", above=-math.log(0.85))],
    prediction={"PASS": 0.05, "FAIL": 0.85, "INCONCLUSIVE": 0.1},
)  # fmt: skip
