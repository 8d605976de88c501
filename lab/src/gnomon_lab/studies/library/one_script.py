"""Whether an experiment of one's own needs more than the installed package and one short script."""

import subprocess
import sys
import tempfile
from pathlib import Path

from gnomon_lab.studies import Claim, Study

SCRIPT = """\
import gnomon

def correct(completion, answer):
    return f"<answer>{answer}</answer>" in completion

rows = [{"prompt": f"Vowels in {'ba' * n}?", "answer": str(n)} for n in range(2, 12)]
if __name__ == "__main__":
    small = {"prompts": 2, "group": 2, "max_tokens": 8}
    run = gnomon.train(rows, reward=correct, run="r", steps=1, rollout=small, eval={"tasks": 1}, quiet=True)
    print(run.steps)
"""


def ran(seed: int) -> dict[str, float]:
    """Whether the script trains in an empty folder, how many lines it has, and how many classes."""
    with tempfile.TemporaryDirectory() as empty:
        (Path(empty) / "mine.py").write_text(SCRIPT)
        found = subprocess.run([sys.executable, "mine.py"], cwd=empty, capture_output=True, text=True)
    size = {"lines": len(SCRIPT.splitlines()), "classes": SCRIPT.count("class ")}
    return {"trains": found.stdout == "1\n", **size}


study = Study(
    question="Does an experiment with its own reward need one script of at most 25 lines, and no copy of the trainer?",
    why="Most projects carry a changed copy of their trainer, because it can be configured and not imported.",
    arms={"script": ran}, exact=True,
    claims=[Claim(measure="trains", arm="script", above=0.5), Claim(measure="lines", arm="script", within=25.5)],
    prediction={"PASS": 0.95, "FAIL": 0.05, "INCONCLUSIVE": 0.0},
)  # fmt: skip
