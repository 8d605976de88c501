"""The objective by its name, with the penalties that the settings add to it."""

from __future__ import annotations

from dataclasses import replace

from gnomon.config import RunConfig
from gnomon.errors import ConfigError
from gnomon.objectives import Objective, less_overlong, objective, penalties

__all__ = ["full_kl", "make_objective"]


def make_objective(config: RunConfig, row: Objective | None = None) -> Objective:
    """Args: row: an objective that was passed as an object; else the one that the settings name."""
    if row is None:
        row = objective(config.objective.type, **config.objective.options)
    elif config.rollout.group < row.min_group:
        what = f"{row.name} compares groups of at least {row.min_group}, and group = {config.rollout.group}"
        raise ConfigError("E031", what, where="rollout.group", fix=f"group={max(8, row.min_group)}")
    return overlong_penalised(config, kl_penalised(config, row))


def full_kl(config: RunConfig) -> float:
    """Coefficient of the KL penalty over the full next-token distribution, which the learner computes itself."""
    return config.regularize.kl if config.regularize.estimator == "full" else 0.0


def kl_penalised(config: RunConfig, row: Objective) -> Objective:
    """The row with the KL penalty of the settings. Raises: ConfigError E041 for a row that has one of its own."""
    if not config.regularize.kl or full_kl(config):
        return row
    if row.penalty is not None:
        raise ConfigError(
            "E041",
            f"{row.name} already has a KL penalty, and regularize.kl would replace it",
            where="regularize.kl",
            fix="regularize.kl=0",
        )
    penalty = getattr(penalties, config.regularize.estimator)
    return replace(row, penalty=penalty, penalty_weight=config.regularize.kl)


def overlong_penalised(config: RunConfig, row: Objective) -> Objective:
    """The row with the length penalty of the settings."""
    if not config.regularize.overlong:
        return row
    most = config.rollout.max_tokens
    buffer = max(1, round(config.regularize.overlong * most))
    return replace(row, credit=less_overlong(row.credit, max_tokens=most, buffer=buffer))
