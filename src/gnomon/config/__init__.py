"""A run's configuration: strict, typed, refused whole with every mistake named before anything starts."""

from gnomon.config.mistakes import unknown_objective
from gnomon.config.resolve import resolve
from gnomon.config.sections import DEFAULTS, Engine, Env, Eval, Objective, Players, Policy, Rollout, RunConfig
from gnomon.config.sources import SHORT, Origins, Source, leaves, load, overrides, recorded_recipe, to_toml, word_of

__all__ = [
    "DEFAULTS",
    "SHORT",
    "Engine",
    "Env",
    "Eval",
    "Objective",
    "Origins",
    "Players",
    "Policy",
    "Rollout",
    "RunConfig",
    "Source",
    "leaves",
    "load",
    "overrides",
    "recorded_recipe",
    "resolve",
    "to_toml",
    "unknown_objective",
    "word_of",
]
