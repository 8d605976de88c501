"""Runs on tasks with images: what they need."""

from __future__ import annotations

import torch

from gnomon.config import RunConfig
from gnomon.config.placement import EngineKind, LearnerPlace
from gnomon.errors import ConfigError, GnomonError, ResourceError
from gnomon.models.folder import model_folder, table
from gnomon.run.makers.policy import attention_of
from gnomon.types import Task

__all__ = ["refusal_of_images", "require_room_for_images"]

BIDIRECTIONAL = ("gemma3",)
"""Families whose tokens of an image attend to each other in both directions."""


def require_room_for_images(config: RunConfig, task: Task) -> None:
    """Raises: the error of `refusal_of_images`, for a task with images."""
    error = refusal_of_images(config)
    if error is not None and any(message.images for message in task.messages):
        raise error


def refusal_of_images(config: RunConfig) -> GnomonError | None:
    """ConfigError E189 for settings that do not take images, ResourceError E547 for vLLM on a CPU with a model of
    `BIDIRECTIONAL`; else None."""
    placement = config.placement
    if placement.engine is EngineKind.VLLM and not torch.cuda.is_available() and (family := both_ways(config)):
        return ResourceError(
            "E547", f"vLLM on a CPU does not compute images of {family} as the learner does", where="engine.type",
            why="the tokens of an image attend to later ones too, and vLLM's kernels for a CPU are causal",
            fix="engine=embedded",
        )  # fmt: skip
    settings = {
        "policy.attention=transformers": attention_of(config) == "transformers",
        "engine=embedded": placement.engine is not EngineKind.SERVICE,
        "learner=local": placement.learner in (LearnerPlace.LOCAL, LearnerPlace.OBJECT),
        "ranks=0": not placement.ranks,
        "launch.type=local": not placement.samplers,
    }
    if wrong := [fix for fix, holds in settings.items() if not holds]:
        return ConfigError(
            "E189", "these settings do not take images",
            where=", ".join(fix.partition("=")[0] for fix in wrong),
            why="the learner passes images through the model's own forward, in the process of the run",
            fix=" ".join(wrong),
        )  # fmt: skip
    return None


def both_ways(config: RunConfig) -> str:
    """The family of the policy, if it is in `BIDIRECTIONAL`; else empty."""
    family = table(model_folder(config.policy.path) / "config.json").get("model_type", "")
    return family if family in BIDIRECTIONAL else ""
