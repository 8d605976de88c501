"""Whether samples of earlier weights cost accuracy."""

from gnomon_lab.studies import Claim, Study

study = Study(
    question="Does training on samples that are four steps old end within three points of training on new ones?",
    why="Asynchronous trainers sample while they train, and report no loss at small lags (prime-rl, Tinker). "
    "Ratios are taken to the policy that sampled.",
    base="char_count",
    settings={"steps": 60, "objective": "tis"},
    arms={f"lag {lag}": {"rollout.lag": lag} for lag in (0, 4, 16)},
    claims=[
        Claim(measure="final", arm="lag 4", than="lag 0", within=0.03),
        Claim(measure="final", arm="lag 0", than="lag 16", above=0.0),
    ],
    prediction={"PASS": 0.25, "FAIL": 0.15, "INCONCLUSIVE": 0.6},
)
