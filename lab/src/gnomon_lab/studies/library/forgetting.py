"""Whether reinforcement learning forgets less than supervised learning, at equal accuracy on the new task."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import gnomon
from gnomon.envs import CharCount
from gnomon_lab.studies import Claim, Study

OLD = ("arithmetic", "scramble")
LEARNED = 0.6


def trained(seed: int, folder: Path, solutions: bool) -> dict[str, float]:
    """Change of pass@1 on the old tasks at the first evaluation with .6 on the new one, or at the last."""
    env, tasks, rollout = CharCount(), CharCount().tasks("train"), dict[str, Any](prompts=16)
    if solutions:
        rows = [json.dumps({"task": at, "reply": env.framed(env.solution(tasks[at]))}) for at in range(2048)]
        (folder / "solutions.jsonl").write_text("\n".join(rows))
        rollout["demonstrations"] = str(folder / "solutions.jsonl")
    sets = {"every": 4, "tasks": 96, "sets": {name: {"env": name} for name in OLD}}
    own: Any = {"objective": "sft" if solutions else "dr_grpo", "rollout": rollout, "eval": sets, "steps": 40}
    with gnomon.train("char_count", run=folder / "run", seed=seed, quiet=True, threads=1, **own) as run:
        found = {name: [record.body["pass_at"]["1"]["value"] for record in run.evaluations(name)]
                 for name in ("", *OLD)}  # fmt: skip
    at = next((place for place, value in enumerate(found[""]) if value >= LEARNED), -1)
    return {name: found[name][at] - found[name][0] for name in OLD} | {"new": found[""][at]}


study = Study(
    question="Does reinforcement learning keep ten points more of old tasks than supervised learning?",
    why="RL's Razor (arXiv 2509.04259) finds that training on one's own replies moves a policy least. The solutions "
    "here are bare answers, which the policy gives to most tasks of its own. New: letters; old: sums and words.",
    arms={"rewards": partial(trained, solutions=False), "solutions": partial(trained, solutions=True)},
    seeds=range(5),
    claims=[Claim(measure=name, arm="rewards", than="solutions", above=0.1) for name in OLD],
    prediction={"PASS": 0.4, "FAIL": 0.2, "INCONCLUSIVE": 0.4},
)  # fmt: skip
