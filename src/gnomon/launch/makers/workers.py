"""The processes in which an environment is played."""

from __future__ import annotations

from gnomon.config import RunConfig
from gnomon.envs.base import Env
from gnomon.rollout.referee import Referee

__all__ = ["make_workers"]


def make_workers(config: RunConfig, env: Env) -> Referee:
    return Referee(
        env,
        workers=config.referee.workers,
        seconds=config.referee.seconds,
        memory=config.referee.memory_mib * 2**20,
        retries=config.referee.retries,
    )
