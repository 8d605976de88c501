"""Whether stored rollouts show exactly what a changed verifier changes."""

import tempfile
from pathlib import Path
from typing import Any

import gnomon
from gnomon.rejudge.replay import replay
from gnomon_lab.studies import Claim, Study

CHANGED = """\
from gnomon.envs import CharCount
class TwoIsRight(CharCount):
    def check(self, task, answer):
        return answer.strip() == "2" or super().check(task, answer)
"""


def flips(seed: int) -> dict[str, float]:
    """Rollouts that flip and should not, or the other way round; flips by the changed and by the old verifier."""
    with tempfile.TemporaryDirectory() as scratch:
        run, file = Path(scratch) / "run", Path(scratch) / "changed.py"
        file.write_text(CHANGED)
        sizes: Any = {"rollout": {"prompts": 16, "group": 8}, "eval": {"tasks": 64}}
        with gnomon.train("char_count", run=run, seed=seed, steps=1, quiet=True, **sizes) as reader:
            rows = [r for r in reader.records("rollout") if r.body["status"] == "wrong"]
        expected = {f"{r.step}:{r.task}:{r.sample}" for r in rows if r.body["extracted"].strip() == "2"}
        old, new = replay(run, trust=True), replay(run, f"{file}:TwoIsRight", trust=True)
        now = {flip.address for flip in new.flips if "held-out" not in flip.address}
        return {"missed or false": len(now ^ expected), "changed": len(now), "same": len(old.flips)}


study = Study(
    question="Does judging stored rollouts again list exactly those that a changed verifier judges differently?",
    why="Libraries change during a project. What a new version of a verifier changes must not be found by training.",
    arms={"changed": flips}, exact=True,
    claims=[*(Claim(measure=name, arm="changed", within=0.5) for name in ("missed or false", "same")),
            Claim(measure="changed", arm="changed", above=0.5)],
    prediction={"PASS": 0.9, "FAIL": 0.1, "INCONCLUSIVE": 0.0},
)  # fmt: skip
