"""The learner on the Tinker service."""

from __future__ import annotations

from gnomon.config import RunConfig
from gnomon.errors import ConfigError
from gnomon.learners.tinker import TinkerLearner
from gnomon.models.folder import model_folder, table
from gnomon.objectives import Objective
from gnomon.run.makers.learner import make_adam
from gnomon.run.makers.policy import make_adapter

__all__ = ["make_tinker_learner"]


def make_tinker_learner(config: RunConfig, row: Objective) -> TinkerLearner:
    """Raises: ConfigError E048 without a key, or for a row that trains on observations; ResourceError E505 without the
    SDK, E508 where the service refuses."""
    if row.observation:
        what, why = (
            f"{row.name} cannot be trained on the Tinker service",
            "training on observations there is not implemented",
        )
        raise ConfigError("E048", what, where="objective.type", why=why, fix="objective=grpo")
    adapter = make_adapter(config, blank=True)
    return TinkerLearner(
        config.placement.target,
        rank=adapter.rank if adapter else 0,
        seed=config.seed,
        optimizer=make_adam(config),
        vocabulary=int(table(model_folder(config.policy.path) / "config.json")["vocab_size"]),
    )
