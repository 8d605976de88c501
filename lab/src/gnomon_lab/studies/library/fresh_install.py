"""How long a new user waits from an empty folder to the first curve."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gnomon
from gnomon.store import RunReader
from gnomon_lab.studies import Claim, Study

SOURCE = Path(gnomon.__file__).parents[2]
TRAIN = ("train", "char_count", "steps=2", "rollout.prompts=4", "eval.tasks=8", "eval.every=1")


def installed(seed: int) -> dict[str, float]:
    """Minutes for a new environment, the installation and a run; the points of its held-out curve; its packages."""
    with tempfile.TemporaryDirectory() as empty:
        began, run = time.monotonic(), Path(empty) / "run"
        python = str(Path(empty) / "new" / "bin" / "python")
        subprocess.run([sys.executable, "-m", "venv", Path(empty) / "new"], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", SOURCE], check=True)
        subprocess.run([python, "-I", "-m", "gnomon", *TRAIN, f"run={run}"], cwd=empty, check=True)
        minutes = (time.monotonic() - began) / 60
        names = subprocess.run([python, "-m", "pip", "freeze"], capture_output=True, text=True, check=True).stdout
        with RunReader(run) as reader:
            return {"minutes": minutes, "points": len(reader.evaluations()), "packages": len(names.splitlines())}


study = Study(
    question="Does a new user get from an empty environment to the first curve in five minutes, with one call of pip?",
    why="One published method could not be installed in five days, since its instructions pin versions that exclude "
    "each other. Runs from a source tree. The time depends on the machine and on how far the package index is away.",
    arms={"source tree": installed}, exact=True,
    claims=[Claim(measure="minutes", arm="source tree", within=5.0),
            Claim(measure="points", arm="source tree", above=2.5)],
    prediction={"PASS": 0.8, "FAIL": 0.2, "INCONCLUSIVE": 0.0},
)  # fmt: skip
