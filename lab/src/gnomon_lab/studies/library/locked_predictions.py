"""Whether a prediction counts only if it was registered before the run, and unchanged since."""

import tempfile
from pathlib import Path
from typing import Any

import gnomon
from gnomon.errors import GnomonError
from gnomon_lab.predictions.outcome import score
from gnomon_lab.predictions.questions import Reaches
from gnomon_lab.predictions.register import register
from gnomon.store import verify
from gnomon_lab.studies import Claim, Study

ASKED: Any = [Reaches(metric="length", value=0.0, step=1, probability=0.9)]


def locked(seed: int) -> dict[str, float]:
    """Error of the Brier score; whether a late prediction and a changed one are found."""
    with tempfile.TemporaryDirectory() as scratch:
        register(run := Path(scratch) / "run", ASKED, by="author", settings={})
        sizes: Any = {"rollout": {"prompts": 2, "group": 2}, "eval": {"tasks": 4}}
        found: Any = score(gnomon.train("char_count", run=run, steps=1, quiet=True, **sizes))
        error, late, intact = found.answers[0].scores["brier"] - 0.1**2, 0.0, bool(verify(run))
        try:
            register(run, ASKED, by="author", settings={})
        except GnomonError:
            late = 1.0
        (run / "prediction.json").write_text((run / "prediction.json").read_text().replace("0.9", "0.8"))
        return {"error of Brier": error, "late refused": late, "intact": intact, "change found": not verify(run)}


study = Study(
    question="Is a prediction refused after a run began, found if it was changed, and scored by Brier's rule?",
    why="What one expected is remembered as what happened, unless it was written down before.",
    arms={"run": locked}, exact=True,
    claims=[Claim(measure="error of Brier", arm="run", within=1e-12),
            *(Claim(measure=name, arm="run", above=0.5) for name in ("late refused", "intact", "change found"))],
    prediction={"PASS": 0.9, "FAIL": 0.1, "INCONCLUSIVE": 0.0},
)  # fmt: skip
