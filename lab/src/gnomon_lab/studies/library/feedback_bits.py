"""Whether rewards with more information per episode teach more in equal episodes."""

from collections import Counter
from functools import partial
from math import log2
from pathlib import Path
from typing import Any
from zlib import crc32

import gnomon
from gnomon.envs import CharCount
from gnomon_lab.studies import Claim, Study, final

TASKS = CharCount().tasks("train")


def reward(completion: str, answer: int, kind: str) -> float:
    """1 for the right number; half for one that is off by one (`distance`), or for half of the others (`coin`)."""
    near = any(f"<answer>{answer + by}</" in completion for by in (-1, 1))
    half = 0.5 * {"verdict": False, "distance": near, "coin": crc32(completion.encode()) % 2 == 0}[kind]
    return 1.0 if f"<answer>{answer}</" in completion else half


def trained(seed: int, kind: str, folder: Path) -> dict[str, float]:
    """Entropy in bits of the rewards of the first step, and held-out pass@1 after the last."""
    rows = [{"prompt": TASKS[at].messages[-1].content, "answer": TASKS[at].answer} for at in range(4096)]
    own: Any = {"reward": partial(reward, kind=kind), "steps": 25, "quiet": True, "threads": 1, "eval": {"every": 25}}
    with gnomon.train(rows, run=folder / "run", seed=seed, **own) as run:
        counts = Counter(row.reward for row in run.rollout_rows(0)).values()
        return {"bits": sum(n / 256 * log2(256 / n) for n in counts), "final": final(run)}


study = Study(
    question="Do rewards that say how near an answer is teach more in equal episodes than right or wrong?",
    why="A binary reward has at most one bit per episode. The arm `coin` has as many values, which say nothing more.",
    seeds=range(6), arms={kind: partial(trained, kind=kind) for kind in ("verdict", "distance", "coin")},
    claims=[Claim(measure="bits", arm="distance", than="verdict", above=0.2),
            *(Claim(measure="final", arm="distance", than=other) for other in ("verdict", "coin"))],
    prediction={"PASS": 0.2, "FAIL": 0.25, "INCONCLUSIVE": 0.55},
)  # fmt: skip
