"""The processes in which an environment is played."""

from __future__ import annotations

from gnomon.config import RunConfig
from gnomon.envs.base import Env
from gnomon.envs.workers import EnvWorkers

__all__ = ["make_workers"]


def make_workers(config: RunConfig, env: Env) -> EnvWorkers:
    return EnvWorkers(
        env,
        workers=config.workers.count,
        seconds=config.workers.seconds,
        memory=config.workers.memory_mib * 2**20,
        retries=config.workers.retries,
    )
