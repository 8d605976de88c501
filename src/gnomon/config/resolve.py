"""From sources to one configuration, or to every mistake in them at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gnomon.config.agreement import contradictions
from gnomon.config.choices import STAGES, choices_of
from gnomon.config.mistakes import explain_mistake, unknown_objective, wrong_option
from gnomon.config.sections import DEFAULTS, RunConfig
from gnomon.config.sources import Origins, Source, leaves, put, whole_key
from gnomon.errors import ConfigError, ConfigErrors
from gnomon.objectives.options import declaration_of

__all__ = ["Check", "resolve"]

Check = Callable[[RunConfig, Origins], Iterable[ConfigError]]
"""What else must hold of a configuration."""


def resolve(sources: Sequence[Source], checks: Sequence[Check] = ()) -> tuple[RunConfig, Origins]:
    """Defaults, then each source over the ones before it. A text that begins with `~/` is a path below the home folder.

    Args: checks: more that must hold; they run beside our own, also where some key was refused.
    Returns: the configuration, and the origin of every key that some source gave.
    Raises: ConfigErrors, with every mistake at once.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for source in sources:
        supplied = {whole_key(key, value): (key, value) for key, value in leaves(source.values).items()}
        for table in ("env", "objective"):
            if f"{table}.type" in supplied and supplied[f"{table}.type"][1] != type_of(values, table):
                values.pop(table, None)  # Another environment or objective has options of its own.
                origins = {key: origin for key, origin in origins.items() if not key.startswith(f"{table}.")}
        for name, (key, value) in supplied.items():
            put(values, name, os.path.expanduser(value) if isinstance(value, str | Path) else value)
            origins[name] = source.origins.get(key, "a default")
    problems = without_mistakes(values, origins)
    bring(values, origins)
    if "rollout.recorded" in origins and not origins.keys() & {"rollout.replay", "rollout.failure_prefix"}:
        put(values, "rollout.replay", 1.0 if leaves(values).get("rollout.recorded") else 0.0)
        origins["rollout.replay"] = "rollout.recorded"
    while True:
        try:
            config = RunConfig.model_validate(values)
            break
        except ValidationError as error:
            items = error.errors()
            problems += [problem for item in items for problem in explain_mistake(item, origins)]
            for item in items:
                drop(values, [str(part) for part in item["loc"]])
    # The choices read the files of a model that a check may fetch.
    others = [problem for check in checks for problem in check(config, origins)]
    config = fit_defaults(config, values, origins)
    for contradiction in contradictions(config, origins):
        contradiction.where = origins.get(contradiction.where, contradiction.where)
        problems.append(contradiction)
    problems += others
    if problems:
        raise ConfigErrors(problems)
    return config, origins


def type_of(values: Mapping[str, Any], table: str) -> Any:
    """The `type` of a table as it stands, the default where none is given."""
    below = values.get(table)
    return below.get("type", DEFAULTS[table]["type"]) if isinstance(below, dict) else DEFAULTS[table]["type"]


def fit_defaults(config: RunConfig, values: dict[str, Any], origins: dict[str, str]) -> RunConfig:
    """The configuration with the defaults of its model and machine in the place of those that nobody set."""
    for stage in STAGES:
        for choice in choices_of(config, stage):
            if choice.key not in origins:
                put(values, choice.key, choice.value)
                origins[choice.key] = choice.why
        config = RunConfig.model_validate(values)
    return config


def without_mistakes(values: dict[str, Any], origins: Origins) -> list[ConfigError]:
    """The mistakes in the choice of an objective and in its options, which are dropped from the values."""
    objective = values.get("objective")
    if not isinstance(objective, dict):
        return []
    name = type_of(values, "objective")
    if problem := unknown_objective(name, origins.get("objective.type", "objective.type")):
        del values["objective"]
        return [problem]
    options = {key: value for key, value in objective.items() if key != "type"}
    mistakes = declaration_of(name).mistakes(options, "objective.")
    for mistake in mistakes:
        del objective[mistake.option]
    return [wrong_option(mistake, origins) for mistake in mistakes]


def bring(values: dict[str, Any], origins: dict[str, str]) -> None:
    """Put in the settings that the objective comes with, where none are given."""
    name = type_of(values, "objective")
    for key, value in declaration_of(name).brings.items():
        if key not in origins:
            put(values, key, value)
            origins[key] = f"the recipe of objective={name}"


def drop(values: dict[str, Any], path: Sequence[str]) -> None:
    """Forget a refused key, so that the rest can still be looked at."""
    if path[-1] == "[key]":  # As pydantic names a key that is itself wrong.
        path = path[:-1]
    for part in path[:-1]:
        below = values.get(part)
        if not isinstance(below, dict):
            values.pop(part, None)
            return
        values = below
    if path[-1] in values:
        del values[path[-1]]
    else:
        values.clear()
