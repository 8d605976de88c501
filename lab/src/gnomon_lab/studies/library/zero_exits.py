"""Which ways lead a policy out of the state in which no reply is rewarded."""

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import gnomon
from gnomon_lab.shown_answers import solutions
from gnomon_lab.studies import Claim, Study

BED, COMMON = "gnomon_lab.shown_answers:ShownAnswers", dict[str, Any](steps=20, quiet=True, threads=1)


def trained(seed: int, taught: bool = False, group: int = 8, **env: Any) -> dict[str, float]:
    """pass@1 on countdowns with two numbers, without hints, after 20 steps."""
    rollout: Any = {"prompts": 16, "group": group, "max_tokens": 48}
    with tempfile.TemporaryDirectory() as at:
        if taught:
            Path(at, "solutions").write_text(solutions(64), encoding="utf-8")
            rollout |= {"demonstrations": f"{at}/solutions", "tasks": list(range(64))}
        own: Any = {"objective": "luffy" if taught else "dr_grpo", "audit": {"acknowledge": ["exploit.prompt_echo"]}}
        gnomon.train(
            BED, run=f"{at}/run", seed=seed, env=env, rollout=rollout, eval={"tasks": 2}, **own, **COMMON
        ).close()
        found = gnomon.evaluate(f"{at}/run", BED, seed=seed, eval={"tasks": 64, "samples": 4})
    return {"solved": found.pass_at[1].value}


WAYS: Any = {"hints": {"shown": 0.5}, "neighbours": {"numbers": (2, 3)}, "samples": {"group": 24}}
WAYS["solutions"] = {"taught": True}
study = Study(
    question="Do hints, neighbours, more samples and solutions each lead out of zero, where training alone does not?",
    why="The policy practised three numbers. Of 1,024 replies to countdowns with two, none was right. A hint shows it.",
    arms={"alone": trained} | {name: partial(trained, **own) for name, own in WAYS.items()}, seeds=range(5),
    claims=[Claim(measure="solved", arm="alone", within=0.02)]
    + [Claim(measure="solved", arm=arm, above=0.02) for arm in WAYS],
    prediction={"PASS": 0.03, "FAIL": 0.37, "INCONCLUSIVE": 0.6},
)  # fmt: skip
