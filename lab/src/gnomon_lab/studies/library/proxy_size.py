"""When training on a learned reward begins to harm, by the size of its model and with a KL penalty."""

import tempfile
from functools import partial
from typing import Any

import gnomon
from gnomon.envs import CharCount
from gnomon_lab.studies import Claim, Study
from gnomon.verifiers.proxy import train as fit

STEPS = 25
KNOWN = ["reward.weights", "sentinels", "exploit", "correctness", "search", "invariance"]
SIZES: Any = {"quiet": True, "threads": 1, "eval": {"tasks": 16, "every": STEPS}}


def onset(seed: int, bits: int, kl: float = 0.0) -> dict[str, float]:
    """The step of the alarm that accuracy falls while the reward rises; the number of steps without one."""
    tasks, first = CharCount().tasks("train"), {"rollout": {"prompts": 1024, "group": 4, "max_tokens": 48}}
    with tempfile.TemporaryDirectory() as at:
        with gnomon.train("char_count", run=f"{at}/data", seed=seed, steps=1, **SIZES | first) as data:
            rows = [(tasks[row.task or 0], row.body) for row in data.records("rollout")]
        pairs = [(task.messages[-1].content, body["reply"], body["status"] == "correct") for task, body in rows]
        fit(pairs, bits=bits, passes=4, rate=0.1).save(f"{at}/model")
        settings: Any = {"env": {"model": f"{at}/model"}, "regularize": {"kl": kl}, "audit": {"acknowledge": KNOWN}}
        proxied, settings = "gnomon.envs.reward_hacking:Proxied", settings | {"max_tokens": 32, "steps": STEPS}
        with gnomon.train(proxied, run=f"{at}/run", seed=seed, **settings, **SIZES) as run:
            return {"onset": min((a["step"] for a in run.alarms() if a["name"] == "correct.falls"), default=STEPS)}


study = Study(
    question="Is a smaller reward model exploited earlier, and does a KL penalty delay the exploit?",
    why="Gao et al. 2022 (arXiv 2210.10760) measured it for large reward models. Ours have 16, 256 or 4096 weights. "
    "In a benchmark with five seeds, 16 weights taught too little to be exploited.",
    arms={f"{b} bits": partial(onset, bits=b) for b in (4, 8, 12)} | {"8 bits, KL": partial(onset, bits=8, kl=0.05)},
    seeds=range(10, 13),
    claims=[Claim(measure="onset", arm=arm, than=than) for arm, than in (("8 bits", "4 bits"), ("12 bits", "8 bits"))]
    + [Claim(measure="onset", arm="8 bits, KL", than="8 bits")],
    prediction={"PASS": 0.02, "FAIL": 0.83, "INCONCLUSIVE": 0.15},
)  # fmt: skip
