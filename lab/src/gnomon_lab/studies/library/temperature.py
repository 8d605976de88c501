"""Which sampling temperature explores best."""

from gnomon_lab.studies import Claim, Study

study = Study(
    question="Is a sampling temperature of 1 better than .4, and than 1.6?",
    why="GSM8K went from 40.6 to 55.7 with the right temperature (oat, rho-1b). Too cold a sampler sees one reply, too "
    "hot a one sees noise. A tiny policy has a flat distribution, so the best temperature of a large one may differ.",
    base="char_count",
    settings={"steps": 40},
    arms={f"{value:g}": {"rollout.temperature": value} for value in (0.4, 1.0, 1.6)},
    claims=[Claim(measure="final", arm="1", than=other, above=0.0) for other in ("0.4", "1.6")],
    prediction={"PASS": 0.3, "FAIL": 0.2, "INCONCLUSIVE": 0.5},
)
