"""Where settings come from: recipes, run folders, the words of a command line."""

from __future__ import annotations

import json
import re
import shlex
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import tomli_w

from gnomon import terminal
from gnomon.config.sections import RunConfig
from gnomon.errors import ConfigError, ConfigErrors, sibling
from gnomon.models.hub import at_commits
from gnomon.objectives.options import OPTIONS
from gnomon.objectives.spelling import nearest

__all__ = [
    "SHORT",
    "Origins",
    "Source",
    "leaves",
    "load",
    "overrides",
    "put",
    "recipes",
    "recorded_recipe",
    "to_toml",
    "value_of",
    "whole_key",
    "word_of",
]

Origins = Mapping[str, str]
"""Dotted key to where it was given."""

SHORT = {
    "agent": "env.agent",
    "env": "env.type", "policy": "policy.path", "model": "policy.path", "lora": "policy.lora.rank",
    "objective": "objective.type", "engine": "engine.type",
    "launch": "launch.type",
    "prompts": "rollout.prompts", "group": "rollout.group", "max_tokens": "rollout.max_tokens",
    "temperature": "rollout.temperature", "curriculum": "rollout.curriculum",
    "steps": "budget.steps", "seconds": "budget.seconds", "lr": "optim.lr",
}  # fmt: skip
"""Keys that may be written without their table."""


NAMED = re.compile(r"eval\.sets\.\w+\.env")
"""Tables whose `type` may be written in their place."""


def whole_key(key: str, value: Any) -> str:
    """A key with its table, where it may be written without: `lr`, and `eval.sets.NAME.env` for the type."""
    return SHORT.get(key) or (f"{key}.type" if isinstance(value, str) and NAMED.fullmatch(key) else key)


@dataclass(frozen=True, slots=True)
class Source:
    """One layer of settings and where each key of it was given."""

    values: Mapping[str, Any]
    origins: Origins


def load(path: Path) -> Source:
    """A TOML recipe as a source. Raises: ConfigErrors when the file is missing or no TOML."""
    try:
        text = find_recipe(path).read_text("utf-8")
        values = parse(text)
    except OSError as error:
        near = sibling(path, lambda path: path.suffix == ".toml") or nearest(path.name, recipes())
        fix = f"{near} is a recipe" if near else "give a path relative to this folder: dir/recipe.toml"
        problem = ConfigError("E001", "the recipe cannot be read", where=str(path), why=str(error.strerror), fix=fix)
        raise ConfigErrors([problem]) from error
    except UnicodeDecodeError as error:
        fix = "save it as UTF-8"
        problem = ConfigError("E002", "the recipe is not valid TOML", where=str(path), why=str(error), fix=fix)
        raise ConfigErrors([problem]) from error
    except tomllib.TOMLDecodeError as error:
        match = re.search(r"at line (\d+)", str(error))
        line = int(match[1]) if match else len(text.splitlines())
        wrong = next(iter(text.splitlines()[line - 1 : line]), "").strip()[:80]
        problem = ConfigError(
            "E002", "the recipe is not valid TOML", where=f"{path}, line {line}: {wrong}", why=str(error),
            fix='write each setting once, as key = value, with quotes around text: env = "countdown"',
        )  # fmt: skip
        raise ConfigErrors([problem]) from error
    return Source(values, {key: f"{path}, line {line_of(text, key)}" for key in leaves(values)})


def parse(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises: TOMLDecodeError, also for a number too long for `int` and for deep nesting."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        longest = max((len(line), -number) for number, line in enumerate(text.splitlines(), 1))
        raise tomllib.TOMLDecodeError(f"{error} (at line {-longest[1]})") from error


def find_recipe(path: Path) -> Path:
    """The recipe itself, or the one of this name that ships."""
    return recipes().get(path.name, path) if path.parent == Path() and not path.exists() else path


def recipes() -> dict[str, Path]:
    """The recipes that ship, by name."""
    every = (Path(str(file)) for file in files("gnomon.recipes").iterdir())
    return {file.name: file for file in sorted(every) if file.suffix == ".toml"}


def recorded_recipe(path: Path) -> Source:
    """The recipe of a run folder. A model of the hub has the commit that the run recorded.

    Raises: as `load`; ConfigErrors E068 for a run that was imported.
    """
    recipe = load(path)
    if "imported" in recipe.values:
        problem = ConfigError(
            "E068", "an imported run has no settings", where=str(path), why="its rollouts are those of another trainer",
            fix="gnomon show, view, report, alarms, verify, or replay --verifier file.py:Class",
        )  # fmt: skip
        raise ConfigErrors([problem])
    values: dict[str, Any] = {}
    for key, value in at_commits(leaves(recipe.values), commits_beside(path)).items():
        put(values, key, value)
    return Source(values, recipe.origins)


def commits_beside(path: Path) -> Any:
    """The commits of models of the hub in the manifest beside a recipe; None where it cannot be read."""
    try:
        return json.loads(path.with_name("manifest.json").read_bytes()).get("hub")
    except (OSError, ValueError, AttributeError):
        return None


def overrides(words: Sequence[str], first: int = 1) -> Source:
    """`key=value` words as a source; values are TOML, and a bare word is a text. `run=` is no setting.

    A setting with two values is noted on stderr.

    Args: first: the number of the first word on the command line, for error messages.
    Raises: ConfigErrors for a word without `=`.
    """
    values: dict[str, Any] = {}
    origins, problems = {}, []
    for number, word in enumerate(words, first):
        key, sign, raw = word.partition("=")
        where = f"the command line, argument {number}: {word}"
        if key == "run":
            continue
        if not sign or not re.fullmatch(r"[A-Za-z_][\w.]*", key):
            why = "settings are written key=value, for example rollout.group=16"
            problems.append(
                ConfigError("E003", f"{word!r} is not a setting", where=where, why=why, fix=probable_setting(word))
            )
            continue
        value = value_of(raw)
        whole = whole_key(key, value)
        if leaves(values).get(whole, value) != value:
            terminal.put(f"{whole} is set twice. The last value counts: {word}", file=sys.stderr)
        put(values, whole, value)
        origins[whole] = where
    if problems:
        raise ConfigErrors(problems)
    return Source(values, origins)


def probable_setting(word: str) -> str:
    """The setting that a word without `key=` probably means: an objective, a class of an environment, or a key."""
    if word in OPTIONS:
        return f"objective={word}"
    if re.fullmatch(r"[\w./]+:[A-Z]\w*", word):
        return f"env={word}"
    match = re.fullmatch(r"([A-Za-z_][\w.-]*)(?:=|:=?|==)([^=].*)", word)
    return word_of(match[1].replace("-", "_"), value_of(match[2])) if match else "leave it out"


def to_toml(config: RunConfig) -> str:
    """The whole configuration as a recipe that repeats it."""
    return tomli_w.dumps(config.model_dump())


def leaves(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested tables as dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            flat |= leaves(value, f"{above}{key}.")
        else:
            flat[above + key] = value
    return flat


def put(values: dict[str, Any], key: str, value: Any) -> None:
    *tables, last = key.split(".")
    for table in tables:
        below = values.setdefault(table, {})
        if not isinstance(below, dict):
            below = values[table] = {"type": below}
        values = below
    values[last] = value


def value_of(raw: str) -> Any:
    try:
        return parse(f"x = {raw}")["x"]
    except tomllib.TOMLDecodeError:
        return raw


def word_of(key: str, value: Any) -> str:
    """`key=value` as a shell takes it, which `overrides` reads as this value."""
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    if isinstance(value, str) and value_of(text) != value:
        text = json.dumps(value)
    return shlex.quote(f"{key}={text}")


def line_of(text: str, key: str) -> int:
    """The line of a TOML text where a dotted key is given, or 1."""
    table, last = "", key.rpartition(".")[2]
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.match(r"\s*\[([\w.]+)\]", line):
            table = match[1] + "."
        elif (match := re.match(r"\s*([\w.]+)\s*=", line)) and (
            table + match[1] == key or (key.startswith(table + match[1] + ".") and f"{last}" in line)
        ):
            return number
    return 1
