"""What is trained on: an environment, with only those tasks that were demonstrated where an objective needs that."""

from __future__ import annotations

from pathlib import Path

from gnomon.config import RunConfig
from gnomon.envs.base import Env
from gnomon.errors import ConfigError
from gnomon.objectives import Data, Objective
from gnomon.rollout.demonstrations import demonstrations

__all__ = ["make_tasks"]


def make_tasks(config: RunConfig, env: Env, row: Objective) -> Env:
    """Raises: ConfigError E040 for an index in `rollout.tasks` that the train split does not have."""
    if row.data in (Data.DEMONSTRATED, Data.MIXED):
        env = demonstrations(Path(config.rollout.demonstrations), env)
    size = len(env.tasks("train"))
    if beyond := [index for index in config.rollout.tasks if index >= size]:
        raise ConfigError(
            "E040",
            f"the train split has {size} tasks, and none with index {beyond[0]}",
            where="rollout.tasks",
            fix=f"rollout.tasks=[{size - 1}], or other indices from 0 to {size - 1}",
        )
    return env
