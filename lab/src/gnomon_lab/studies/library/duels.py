"""Whether duels chosen by Thompson sampling find better replies than other duels, with equally many judgements."""

from functools import partial

from gnomon_lab.duels import CHOICES, share_reached
from gnomon_lab.studies import Claim, Study


def learned(seed: int, choice: str) -> dict[str, float]:
    """Share of the best reward that the preferred replies reach after 30 and after 120 judgements."""
    return {f"after {labels}": share_reached(seed, choice, labels) for labels in (30, 120)}


study = Study(
    question="Do duels chosen by Thompson sampling find better replies than random and than the most uncertain duels?",
    why="SEA chooses which replies to compare by sampling from the posterior of the reward (Liu et al. 2024, arXiv "
    "2411.01493). The cost is the judgement, so arms are compared at 30 and at 120 of them. The bed is simulated: the "
    "reward is linear in eight features, and 16 replies to each prompt can be compared. The result is measured on new "
    "prompts, without exploration.",
    arms={choice: partial(learned, choice=choice) for choice in CHOICES},
    seeds=range(16),
    claims=[
        Claim(measure=f"after {labels}", arm="Thompson", than=than)
        for labels in (30, 120)
        for than in ("random", "uncertain")
    ],
    prediction={"PASS": 0.1, "FAIL": 0.6, "INCONCLUSIVE": 0.3},
)
