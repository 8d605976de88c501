"""The models of the hub that a configuration names, at the commits that a run keeps for its life."""

from __future__ import annotations

from gnomon.config import RunConfig
from gnomon.config.sources import leaves
from gnomon.models.folder import model_folder
from gnomon.models.hub import at_commits, commit_of, hub_name

__all__ = ["MODELS", "commits", "pin_models"]

MODELS = ("policy.path", "policy.reference", "players.opponent")
"""Settings that name a model."""


def commits(config: RunConfig) -> dict[str, str]:
    """The commit of every model of the hub, by setting. Raises: ModelError, as `model_folder`."""
    values = leaves(config.model_dump())
    return {key: commit_of(model_folder(values[key])) for key in MODELS if hub_name(values[key])}


def pin_models(config: RunConfig) -> RunConfig:
    """The configuration with every model of the hub at its commit, for other processes and machines."""
    settings = at_commits(leaves(config.model_dump()), commits(config))
    policy, players = config.policy, config.players
    paths = {"path": settings["policy.path"], "reference": settings["policy.reference"]}
    policy = policy.model_copy(update=paths)
    players = players.model_copy(update={"opponent": settings["players.opponent"]})
    return config.model_copy(update={"policy": policy, "players": players})
