"""The client of a learner that runs on a server, and the settings that client and server must share."""

from __future__ import annotations

import os
from typing import Any

from gnomon.config import RunConfig
from gnomon.errors import ConfigError
from gnomon.learners.base import Named
from gnomon.learners.served import ServedLearner
from gnomon.models.folder import model_folder
from gnomon.run.makers.objective import full_kl, make_objective
from gnomon.run.makers.policy import attention_of
from gnomon.run.manifest import hashes, rank_group

__all__ = ["TOKEN", "make_served", "named_objective", "of_learner"]

TOKEN = "GNOMON_LEARNER_TOKEN"
"""Environment variable with the token of the server."""


OPTIM = ("type", "weight_decay", "states", "momentum", "max_grad_norm", "micro_batch")
"""Settings of `optim` that are a learner's own; the others are those of the run's schedule."""


def of_learner(config: RunConfig) -> dict[str, Any]:
    """What of the settings decides the numbers of a learner."""
    body = config.model_dump(mode="json")
    optim = {name: body["optim"][name] for name in OPTIM}
    policy = {name: body["policy"][name] for name in ("dtype", "lora")} | {"attention": attention_of(config)}
    settings = {name: body[name] for name in ("seed", "threads", "objective", "regularize", "critic")}
    settings["rollout"] = {name: body["rollout"][name] for name in ("top_p", "top_k")}
    settings["ranks"] = rank_group(config.ranks)
    policy["files"] = hashes(model_folder(config.policy.path))
    if config.policy.reference:
        policy["reference"] = hashes(model_folder(config.policy.reference))
    return {**settings, "optim": optim, "policy": policy}


def named_objective(config: RunConfig) -> Named:
    """The objective of a run with its KL penalty, by name."""
    row = make_objective(config)
    penalty = config.regularize.estimator if config.regularize.kl and not full_kl(config) else ""
    options = dict(config.objective.options)
    return Named(
        name=config.objective.type,
        options=options,
        penalty=penalty,
        penalty_weight=row.penalty_weight if penalty else 0.0,
    )


def make_served(config: RunConfig) -> ServedLearner:
    """The learner of a run whose setting `learner` is the address of a server.

    Raises: ConfigError E048 without a token; as `ServedLearner`.
    """
    token = os.environ.get(TOKEN, "")
    if not token:
        raise ConfigError(
            "E048",
            f"the environment variable {TOKEN} is not set",
            where=f"learner={config.learner}",
            why="the server refuses requests without the token that it printed when it started",
            fix=f"export {TOKEN}=…",
        )
    return ServedLearner(config.learner, token, of_learner(config), named_objective(config))
