"""Paths in a configuration, made absolute: a run resumes from any folder."""

from __future__ import annotations

from pathlib import Path

from gnomon.config import RunConfig
from gnomon.envs.base import Env
from gnomon.models.folder import NAMED
from gnomon.models.hub import hub_name
from gnomon.run.data import anchored_data

__all__ = ["anchor"]


def anchor(config: RunConfig, env: Env) -> RunConfig:
    """The configuration with the paths of all that it reads made absolute."""
    config = anchored_data(config, env)
    policy, spec, players = config.policy, config.env, config.players
    players = players.model_copy(update={"opponent": anchored_model(players.opponent)})
    paths = {"path": anchored_model(policy.path), "reference": anchored_model(policy.reference)}
    policy = policy.model_copy(update=paths)
    spec = spec.model_copy(update={"type": anchored_type(spec.type)})
    sets = {
        name: own.model_copy(update={"env": {**own.env, "type": anchored_type(own.env["type"])}})
        if "type" in own.env
        else own
        for name, own in config.eval.sets.items()
    }
    evaluation = config.eval.model_copy(update={"sets": sets})
    return config.model_copy(update={"policy": policy, "env": spec, "players": players, "eval": evaluation})


def anchored_model(name: str) -> str:
    """The name of a model; that of a folder as its absolute path."""
    return name if name in ("", "past", *NAMED) or hub_name(name) else str(Path(name).resolve())


def anchored_type(kind: str) -> str:
    """The type of an environment; that of a file with its absolute path."""
    file, _, name = kind.rpartition(":")
    return f"{Path(file).resolve()}:{name}" if file.endswith(".py") else kind
