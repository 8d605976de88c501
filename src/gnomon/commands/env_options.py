"""An environment or a verifier with the options that stand on the command line."""

from __future__ import annotations

from typing import Any

__all__ = ["chosen_env", "config_of", "options_of"]


def options_of(settings: list[str] | None) -> dict[str, Any]:
    """Options of a verifier or environment, written with `env.` before them or without."""
    from gnomon.config import overrides

    values = dict(overrides(list(settings or []), 2).values)
    below = values.pop("env", {})
    return {**values, **below}


def chosen_env(what: str, settings: list[str] | None) -> Any:
    """The environment with its options; `key=value` are those of its own."""
    from gnomon.run.find import check_env_config, make_env

    return make_env(config_of(what, settings, [], [check_env_config]).env)


def config_of(what: str, settings: list[str] | None, more: list[str], checks: list[Any]) -> Any:
    """The configuration of a run. Args: settings: options of its environment; more: other settings."""
    from gnomon.config import resolve
    from gnomon.run.subject import layers, with_checkpoints

    words = [word if word.startswith("env.") else f"env.{word}" for word in settings or []]
    return resolve(with_checkpoints(layers(what, [*words, *more])), checks)[0]
