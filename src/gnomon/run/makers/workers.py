"""An environment with the tasks that are trained on, and the processes in which it is played."""

from __future__ import annotations

from pathlib import Path

from gnomon.config import RunConfig
from gnomon.envs.base import Env
from gnomon.envs.workers import EnvWorkers
from gnomon.errors import ConfigError
from gnomon.objectives import Data, Objective
from gnomon.rollout.demonstrations import demonstrations

__all__ = ["make_tasks", "make_workers"]


def make_workers(config: RunConfig, env: Env) -> EnvWorkers:
    """Episodes stay on their workers where the user accepts that a replay differs."""
    accepted = any(rule.partition(".")[0] == "determinism" for rule in config.audit.acknowledge)
    return EnvWorkers(
        env,
        workers=config.workers.count,
        seconds=config.workers.seconds,
        memory=config.workers.memory_mib * 2**20,
        retries=config.workers.retries,
        movable=False if accepted else None,
    )


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
