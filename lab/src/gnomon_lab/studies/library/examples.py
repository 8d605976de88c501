"""Whether tasks with a verifier teach more than the same tasks with their solutions."""

import json
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import gnomon
from gnomon.envs import CharCount
from gnomon_lab.studies import Claim, Study
from gnomon.comparison.measures import curve


def trained(seed: int, count: int, solutions: bool) -> dict[str, float]:
    """The best held-out pass@1 of a run on so many tasks, of nine evaluations."""
    env, rollout = CharCount(), dict[str, Any](tasks=list(range(count)))
    with tempfile.TemporaryDirectory() as scratch:
        if solutions:
            tasks = env.tasks("train")
            rows = [json.dumps({"task": at, "reply": env.framed(env.solution(tasks[at]))}) for at in range(count)]
            (Path(scratch) / "solutions.jsonl").write_text("\n".join(rows))
            rollout["demonstrations"] = f"{scratch}/solutions.jsonl"
        settings: Any = {"objective": "sft" if solutions else "dr_grpo", "eval": {"every": 5}, "rollout": rollout}
        with gnomon.train(
            "char_count", run=Path(scratch) / "run", seed=seed, steps=40, quiet=True, **settings
        ) as reader:
            return {"best": max(value for _, value in curve(reader))}


study = Study(
    question="Is a verifier worth more than solutions, on 16 tasks and on 256?",
    why="Solutions are dear and checking is cheap, so the comparison is at equal tasks. Each arm counts with its best "
    "evaluation, which favours neither.",
    arms={f"{name} of {count}": partial(trained, count=count, solutions=name == "solutions")
          for count in (16, 256) for name in ("solutions", "verifier")},
    seeds=range(5),
    claims=[Claim(measure="best", arm=f"verifier of {n}", than=f"solutions of {n}", above=0.0) for n in (16, 256)],
    prediction={"PASS": 0.4, "FAIL": 0.3, "INCONCLUSIVE": 0.3},
)  # fmt: skip
