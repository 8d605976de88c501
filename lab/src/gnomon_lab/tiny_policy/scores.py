"""What a base policy scores on held-out tasks of every environment it was taught, and the hash of its weights."""

from __future__ import annotations

import json
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from gnomon.config import Env, Eval, Policy, RunConfig
from gnomon.run.find import env_class
from gnomon.run.session import measure
from gnomon_lab.tiny_policy.build import TAUGHT, Recipe

__all__ = ["score"]


def score(folder: Path, recipe: Recipe, tasks: int = 128, samples: int = 16) -> dict[str, Any]:
    """Measure the policy of a folder and write `scores.json` beside its weights: pass@1 and pass@16 with intervals."""
    table: dict[str, Any] = {}
    for name in TAUGHT:
        own = options_of(recipe, name)
        config = RunConfig(
            env=Env.model_validate({"type": name, **own}),
            policy=Policy(path=str(folder)),
            eval=Eval(tasks=tasks, samples=samples, pass_at=[1, samples]),
        )
        table[name] = {"options": asdict(env_class(name)(**own)), **measure(config)[""].body()}
    facts = {"weights_sha256": sha256((folder / "model.safetensors").read_bytes()).hexdigest(), "envs": table}
    (folder / "scores.json").write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
    return facts


def options_of(recipe: Recipe, name: str) -> dict[str, Any]:
    """Options that give an environment the tasks of the recipe's corpus; empty for the built-in base."""
    plain: dict[str, Any] = {} if recipe.slot else {"hint": False}
    plain |= {"fresh": True} if recipe.fresh else {}
    return plain | ({"length": recipe.letters} if name == "scramble" and recipe.letters != Recipe().letters else {})
