"""Commands about settings: `gnomon config show` and `explain`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from gnomon.commands.words import Json, Settings
from gnomon.reading.lines import say
from gnomon.terminal import put

__all__ = ["config_show", "explain"]


def config_show(settings: Settings = None, as_json: Json = False) -> None:
    """List every setting, its value and where it was set: gnomon config show [RECIPE.toml|ENV] key=value"""
    from gnomon.config import leaves, overrides, resolve
    from gnomon.run.find import check_env_config
    from gnomon.run.subject import subject

    words = list(settings or [])
    subjects = [subject(word) for word in words if "=" not in word]
    config, origins = resolve([*subjects, overrides([word for word in words if "=" in word])], [check_env_config])
    values = leaves(config.model_dump())
    if as_json:
        put(json.dumps({key: str(v) if v == float("inf") else v for key, v in values.items()}, indent=1))
        return
    for key, value in values.items():
        say(f"{key:<22} {value!s:<14} {origins.get(key, 'default')}")


def explain(
    word: Annotated[str, typer.Argument(metavar="SETTING|METRIC|CODE", help="optim.lr, logp_mismatch, E031 …")],
) -> None:
    """Explain a setting, a metric or an error code: gnomon explain optim.lr"""
    from gnomon.reference import explain as explanation

    say(explanation(word))
