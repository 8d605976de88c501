"""What the command line and the plain parts of the library load before they work."""

import subprocess
import sys
from functools import partial

from gnomon_lab.studies import Claim, Study

HEAVY = ("torch", "transformers", "vllm", "ray", "pandas", "scipy", "matplotlib", "trl", "verl", "flash_attn")
HELP = "from gnomon.cli import main\nsys.argv = ['gnomon', '--help']\ntry: main()\nexcept SystemExit: pass"


def loaded(seed: int, code: str) -> dict[str, float]:
    """How many heavy packages a new interpreter has loaded after running the code."""
    script = f"import sys\n{code}\nprint(sum(name in sys.modules for name in {HEAVY!r}), file=sys.stderr)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {"heavy packages": float(found.stderr.splitlines()[-1])}


LIGHT = ("envs", "verifiers", "store", "config")
study = Study(
    question="Do the command line and the environments start without torch or any other heavy package?",
    why="Trainers ask for some 25 packages and a matching compiler before the first help text appears. An author of "
    "environments or verifiers needs none of them.",
    arms={
        "help": partial(loaded, code=HELP),
        **{name: partial(loaded, code=f"import gnomon.{name}") for name in LIGHT},
        "a learner": partial(loaded, code="import gnomon.learners.local"),
    },
    exact=True,
    claims=[
        *(Claim(measure="heavy packages", arm=arm, within=0.5) for arm in ("help", *LIGHT)),
        Claim(measure="heavy packages", arm="a learner", above=0.5),
    ],
    prediction={"PASS": 0.9, "FAIL": 0.1, "INCONCLUSIVE": 0.0},
)
