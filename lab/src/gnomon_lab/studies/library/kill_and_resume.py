"""Runs that are killed at a random moment and resumed, against runs that nobody touched."""

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gnomon.store import RunReader
from gnomon_lab.studies import Claim, Study

GNOMON = [sys.executable, "-m", "gnomon"]
SETTINGS = ["steps=4", "prompts=4", "group=4", "save.every=1", "eval.tasks=8", "workers.count=1"]


def killed(seed: int) -> dict[str, float]:
    """Whether the resumed run has the fingerprint of the whole one, and whether the kill came before its end."""
    with tempfile.TemporaryDirectory() as scratch:
        whole, cut = Path(scratch) / "whole", Path(scratch) / "cut"
        train = [*GNOMON, "train", "char_count", f"seed={seed}", *SETTINGS]
        subprocess.run([*train, f"run={whole}"], check=True, capture_output=True)
        process = subprocess.Popen([*train, f"run={cut}"], stdout=subprocess.DEVNULL)
        while not (cut / "journal.db").exists():
            time.sleep(0.01)
        time.sleep(random.Random(seed).uniform(0.0, 3.0))
        process.kill()
        struck = process.wait() < 0
        subprocess.run([*GNOMON, "resume", str(cut)], check=True, capture_output=True)
        with RunReader(whole) as one, RunReader(cut) as other:
            return {"equal": one.fingerprint == other.fingerprint, "struck": struck}


study = Study(
    question="Does a run that was killed at any moment and resumed end with the same bytes?",
    why="Spot machines vanish. A resumed run that differs in one bit is another experiment.",
    arms={"killed": killed}, seeds=range(5), exact=True,
    claims=[Claim(measure=name, arm="killed", above=0.5) for name in ("equal", "struck")],
    prediction={"PASS": 0.8, "FAIL": 0.2, "INCONCLUSIVE": 0.0},
)  # fmt: skip
