"""Paths in a configuration, made absolute: a run resumes from any folder."""

from __future__ import annotations

from pathlib import Path

from gnomon.config import RunConfig
from gnomon.envs.base import Env
from gnomon.launch.data import anchored_data

__all__ = ["anchored"]


def anchored(config: RunConfig, env: Env) -> RunConfig:
    """The configuration with the paths of all that it reads made absolute."""
    config = anchored_data(config, env)
    policy, spec, players = config.policy, config.env, config.players
    if players.opponent not in ("", "past", "tiny"):
        players = players.model_copy(update={"opponent": str(Path(players.opponent).resolve())})
    if policy.path != "tiny":
        policy = policy.model_copy(update={"path": str(Path(policy.path).resolve())})
    file, _, name = spec.type.rpartition(":")
    if file.endswith(".py"):
        spec = spec.model_copy(update={"type": f"{Path(file).resolve()}:{name}"})
    return config.model_copy(update={"policy": policy, "env": spec, "players": players})
