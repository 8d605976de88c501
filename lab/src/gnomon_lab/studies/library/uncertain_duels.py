"""Whether the most uncertain duel is a worse choice than a random one."""

from functools import partial

from gnomon_lab.duels import share_reached
from gnomon_lab.studies import Claim, Study


def learned(seed: int, choice: str) -> dict[str, float]:
    """Share of the best reward that the preferred replies reach after 120 judgements."""
    return {"reached": share_reached(seed, choice, 120)}


study = Study(
    question="Do the most uncertain duels end with worse replies than random duels, after 120 judgements?",
    why="To ask where the reward is most uncertain is a common rule of active learning. In `duels`, which compared "
    "both with Thompson sampling, it was the worst of three, and that comparison was not registered. The pair of the "
    "largest variance has replies that differ much, so its outcome is often certain and says little. Seeds are new.",
    arms={choice: partial(learned, choice=choice) for choice in ("random", "uncertain")},
    seeds=range(100, 140),
    claims=[Claim(measure="reached", arm="random", than="uncertain")],
    prediction={"PASS": 0.8, "FAIL": 0.0, "INCONCLUSIVE": 0.2},
)
