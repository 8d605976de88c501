"""A smaller policy in a minute: the first layers of the shipped one, trained on the corpus again."""

from __future__ import annotations

from pathlib import Path

from gnomon.models.policy import Policy
from gnomon_lab.tiny_policy.build import Recipe, teach
from gnomon_lab.tiny_policy.recipes import single

__all__ = ["shallow"]


def shallow(folder: Path, env: str, layers: int = 2, steps: int = 200, seed: int = 0) -> Path:
    """Write a model folder. Without training on the corpus, the layers that are left give no readable reply.

    Args: env: the environment whose replies it is trained on; seed: of the corpus.
    """
    whole = Policy.load("tiny")
    model = whole.model
    model.gpt_neox.layers, model.config.num_hidden_layers = model.gpt_neox.layers[:layers], layers
    policy = Policy(model, whole.tokenizer)
    recipe = Recipe(seed=seed, tasks=8, layers=layers, courses=single(steps, {env: 1.0}, care=0.0))
    teach(policy, recipe, 0, folder, {}, report=steps + 1)
    policy.save(folder)
    return folder
