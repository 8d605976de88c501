"""The processes in which an environment is played."""

from __future__ import annotations

from gnomon.config import RunConfig
from gnomon.envs.base import Env
from gnomon.envs.workers import EnvWorkers

__all__ = ["make_workers"]


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
