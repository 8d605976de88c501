"""Runs on tasks with images: what they need."""

from __future__ import annotations

from gnomon.config import RunConfig
from gnomon.config.placement import EngineKind, LearnerPlace
from gnomon.errors import ConfigError
from gnomon.run.makers.policy import attention_of
from gnomon.types import Task

__all__ = ["require_room_for_images", "without_room"]


def require_room_for_images(config: RunConfig, task: Task) -> None:
    """Raises: ConfigError E189 for a task with images, and parts of a run that do not take them."""
    error = without_room(config)
    if error is not None and any(message.images for message in task.messages):
        raise error


def without_room(config: RunConfig) -> ConfigError | None:
    """E189 for settings that do not take images; None where they do."""
    placement = config.placement
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
