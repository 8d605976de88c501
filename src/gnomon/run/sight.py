"""Runs on tasks with images: what they need."""

from __future__ import annotations

from gnomon.config import RunConfig
from gnomon.config.placement import EngineKind, LearnerPlace
from gnomon.errors import ConfigError
from gnomon.run.makers.policy import attention_of
from gnomon.types import Task

__all__ = ["require_room_for_images"]


def require_room_for_images(config: RunConfig, task: Task) -> None:
    """Raises: ConfigError E189 for a task with images, and parts of a run that do not take them."""
    if not any(message.images for message in task.messages):
        return
    placement = config.placement
    settings = {
        "policy.attention=transformers": attention_of(config) == "transformers",
        "engine=embedded": placement.engine is not EngineKind.SERVICE,
        "learner=local": placement.learner in (LearnerPlace.LOCAL, LearnerPlace.OBJECT),
        "ranks=0": not placement.ranks,
        "launch.type=local": not placement.samplers,
    }
    if wrong := [fix for fix, holds in settings.items() if not holds]:
        raise ConfigError(
            "E189", "these settings do not take the images of the tasks",
            where=", ".join(fix.partition("=")[0] for fix in wrong),
            why="the learner passes images through the model's own forward, in the process of the run",
            fix=" ".join(wrong),
        )  # fmt: skip
