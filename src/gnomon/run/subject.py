"""What a word of a command names: a recipe, an environment, a file of rows, or a run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gnomon.config import Source, leaves, load, overrides
from gnomon.config.sources import whole_key
from gnomon.envs.rows import is_file
from gnomon.errors import ConfigError, ConfigErrors

__all__ = ["env_of", "is_run", "layers", "name_of", "split_step", "subject", "with_checkpoints"]

SETTING = re.compile(r"([A-Za-z_][\w.]*)=(.*)", re.DOTALL)
NAMED = ("env", "env.type")


def layers(word: str, settings: Sequence[str] | None) -> list[Source]:
    """The first word of a command and the settings after it, as layers of a configuration.

    Where the word is itself a setting, one of them names the environment.

    Raises: ConfigErrors E021 if none does, or two name different ones; as `load` and `overrides`.
    """
    words = list(settings or ())
    if name := name_of(word):
        supplied = overrides(words, 2)
        other = leaves(supplied.values).get("env.type", name)
        if other != name and not name.endswith(".toml"):
            raise ConfigErrors([two_environments(name, other, supplied.origins["env.type"])])
        return [subject(word), supplied]
    supplied = overrides([word, *words])
    if "env.type" in supplied.origins:
        return [supplied]
    fix = "env=countdown, or another environment that gnomon env list prints"
    raise ConfigErrors([ConfigError("E021", "no word names an environment", where="the command line", fix=fix)])


def two_environments(name: str, other: str, where: str) -> ConfigError:
    fix = f"leave it out, or write policy={name} if {name} is a model"
    return ConfigError("E021", f"the environment is given twice: {name!r} and {other!r}", where=where, fix=fix)


def with_checkpoints(sources: Sequence[Source]) -> list[Source]:
    """The layers, for a command that only measures: the policy may be `RUN` or `RUN:STEP`.

    Raises: RunError E185 for a run without such a checkpoint.
    """
    places: dict[str, str] = {}
    for source in sources:
        values = leaves(source.values)
        policies = {key: value for key, value in values.items() if whole_key(key, value) == "policy.path"}
        places |= {str(value): source.origins.get(key, "policy.path") for key, value in policies.items()}
    name, origin = next(reversed(places.items()), ("", ""))
    if not is_run(name):
        return list(sources)
    from gnomon.export.model import weights_of

    return [*sources, Source({"policy": {"path": str(weights_of(name))}}, {"policy.path": origin})]


def is_run(name: str) -> bool:
    """Whether a name is `RUN`, `RUN:STEP` or a checkpoint's folder."""
    from gnomon.store.layout import RECIPE  # The store is not imported for help or a mistake.

    return (split_step(name)[0] / RECIPE).is_file()


def split_step(name: str) -> tuple[Path, int | None]:
    """`FOLDER`, `FOLDER:STEP` or `FOLDER/checkpoints/STEP` as the folder and the step."""
    from gnomon.store.layout import CHECKPOINTS

    path = Path(name)
    if path.parent.name == CHECKPOINTS and path.name.isascii() and path.name.isdigit():
        return path.parents[1], int(path.name)
    folder, colon, step = name.rpartition(":")
    return (Path(folder), int(step)) if colon and step.isascii() and step.isdigit() else (path, None)


def name_of(word: str) -> str:
    """The name in a word, with `env=` before it or without; the empty text for another setting."""
    match = SETTING.fullmatch(word)
    if match is None:
        return word
    return match[2].strip("\"'") if match[1] in NAMED else ""


def subject(word: str) -> Source:
    """The recipe, environment or file of rows that a word names."""
    name, origin = name_of(word), f"the command line: {word}"
    if name.endswith(".toml"):
        return load(Path(name))
    if is_file(name):
        return Source({"env": {"type": "dataset", "path": name}}, {"env.type": origin, "env.path": origin})
    return Source({"env": name}, {"env": origin})


def env_of(word: str) -> tuple[str, dict[str, Any]]:
    """The type and the options of the environment that a word names."""
    env = subject(word).values.get("env", "")
    return (env, {}) if isinstance(env, str) else (env.get("type", ""), {k: v for k, v in env.items() if k != "type"})
