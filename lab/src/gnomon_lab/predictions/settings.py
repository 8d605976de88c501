"""The settings that a prediction names, in the form that a run records, and how a run differs from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gnomon.config import RunConfig, Source, leaves, resolve, word_of
from gnomon.config.sources import whole_key
from gnomon.envs.base import Env
from gnomon.errors import ConfigError, ConfigErrors
from gnomon.run.find import check_env_config, check_policy_config, make_env
from gnomon.run.paths import anchor
from gnomon.store.layout import PREDICTION
from gnomon_lab.predictions.register import read

__all__ = ["differences", "given_settings", "require_predicted"]


def given_settings(sources: Sequence[Source]) -> dict[str, Any]:
    """The settings that some source gives, by their full keys, with absolute paths, as in the recipe of the run.

    Raises: ConfigErrors for settings with which no run starts.
    """
    supplied = [item for source in sources for item in leaves(source.values).items()]
    named = dict.fromkeys(whole_key(key, value) for key, value in supplied)
    config, _ = resolve(sources, [check_env_config, check_policy_config] if "env.type" in named else [])
    values = leaves(anchor(config, make_env(config.env)).model_dump())
    return {key: values[key] for key in named if key in values}


def differences(settings: Mapping[str, Any], recipe: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The settings of a prediction that a run has otherwise: the predicted value and that of the run."""
    has = leaves(recipe)
    return {key: (value, has.get(key)) for key, value in settings.items() if has.get(key) != value}


def require_predicted(folder: Path, config: RunConfig, env: Env | None = None) -> None:
    """Raises: ConfigErrors E422 if a prediction lies in the folder of a run that would make it void."""
    if not (folder / PREDICTION).is_file():
        return
    recipe = anchor(config, env or make_env(config.env)).model_dump()
    problems = [
        ConfigError(
            "E422",
            f"{key} is {has!r}, and the prediction for this run names {value!r}",
            where=str(folder / PREDICTION),
            why="a run with other settings makes the prediction void",
            fix=word_of(key, value),
        )
        for key, (value, has) in differences(read(folder / PREDICTION)[0].settings, recipe).items()
    ]
    if problems:
        raise ConfigErrors(problems)
