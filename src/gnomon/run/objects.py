"""Environments that are handed over as Python objects: how a recipe names them, and what they were written as."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from types import FunctionType
from typing import Any

from gnomon.config import Env as EnvConfig
from gnomon.envs import ENVS, offers
from gnomon.errors import ConfigError, RunError
from gnomon.integrations.environments import adapter
from gnomon.integrations.rewarded import Rewarded
from gnomon.objectives.options import OBJECT

__all__ = ["OBJECT", "by_object", "require_same_object", "source_facts", "spec_of"]


def spec_of(env: object) -> dict[str, Any]:
    """The `env` table of an object: what makes it again where the run is resumed.

    An object that nothing makes again, because its class stands in a notebook or a function or because a recipe cannot
    hold its values, is named `object:Class`.
    """
    own = offers.spec(env)
    if own is not None:
        return {"type": OBJECT + type(env).__name__, **own}
    options = {
        field.name: getattr(env, field.name)
        for field in (dataclasses.fields(env) if dataclasses.is_dataclass(env) and not isinstance(env, type) else ())
        if field.init and getattr(env, field.name) != field.default
    }
    name = importable(type(env))
    if name and all(map(plain, options.values())):
        return {"type": name, **{key: as_list(value) for key, value in options.items()}}
    options_text = {key: as_list(value) if plain(value) else type(value).__qualname__ for key, value in options.items()}
    return {"type": OBJECT + type(env).__qualname__, **options_text}


def require_same_object(env: object, recorded: EnvConfig, folder: Path) -> None:
    """Raises: RunError E192, where an object that is given to resume a run is not the environment of its recipe.

    A recipe may write a default out or not. Options that name files are compared by the hashes of the files, in
    `require_same_data`.
    """
    default = {f.name: f.default for f in dataclasses.fields(env)} if dataclasses.is_dataclass(env) else {}
    now, was = spec_of(env), {"type": recorded.type, **recorded.options}
    if pair := adapter(recorded.type):
        was |= {"type": f":{pair[0].__qualname__}", **pair[1]}
    for key in [key for key in {**now, **was} if key not in offers.files(env)]:
        here, there = (table.get(key, as_list(default.get(key))) for table in (now, was))
        if key == "type":
            here, there = class_name(here), class_name(there)
        if here != there:
            raise RunError(
                "E192", "the environment differs from the one that the run began with", where=f"env.{key} of {folder}",
                why=f"it was {there!r:.80} and is now {here!r:.80}; the same steps would use other tasks or verdicts",
                fix="pass the tasks and options of the original call of gnomon.train, or start a new run",
            )  # fmt: skip


def class_name(kind: str) -> str:
    """Of an environment by its name in a recipe."""
    return ENVS[kind].__qualname__ if kind in ENVS else kind.rpartition(":")[2]


def importable(kind: type) -> str:
    """A shipped name, `module:Class` or `file.py:Class`; empty for a class that stands where no import finds it."""
    if shipped := next((name for name, shipped_kind in ENVS.items() if shipped_kind is kind), ""):
        return shipped
    if "." in kind.__qualname__:
        return ""
    if kind.__module__ != "__main__" and not kind.__module__.startswith("gnomon_env_"):
        return f"{kind.__module__}:{kind.__qualname__}"
    file = getattr(sys.modules[kind.__module__], "__file__", None)
    return f"{file}:{kind.__qualname__}" if file and Path(file).is_file() else ""


def plain(value: object) -> bool:
    """Whether a recipe can hold a value."""
    if isinstance(value, list | tuple):
        return all(map(plain, value))
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and plain(each) for key, each in value.items())
    return isinstance(value, str | bool | int | float)


def as_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


BY_PYTHON = "call gnomon.resume(RUN, ENV) in Python with the same object, or define the class in a .py file"

BY_REWARD = "call gnomon.resume(RUN, ROWS, reward=FUNCTION) in Python, with the rows and the function of gnomon.train"


def by_object(name: str, where: str, fix: str = BY_PYTHON) -> ConfigError:
    """The error for a command that is to find an environment by a name of this form."""
    if name.removeprefix(OBJECT) == Rewarded.__name__:
        return ConfigError(
            "E025", "the rows and the reward were passed as Python objects, and no command can import them",
            where=where, why="a recipe holds the hash of the rows and the name of the function alone",
            fix=BY_REWARD if fix == BY_PYTHON else fix,
        )  # fmt: skip
    return ConfigError(
        "E025", f"{name.removeprefix(OBJECT)} was passed as a Python object, and no command can import it",
        where=where, why="it is defined in a notebook or inside a function, or has values that a recipe cannot store",
        fix=fix,
    )  # fmt: skip


def source_facts(env: object, name: str) -> dict[str, str]:
    """For a manifest: the name of an environment and the hash of its source; the source too, where no file keeps it.

    The source is the file that its class stands in; of a class or function that no file holds, its own lines.
    """
    if not name.startswith(OBJECT):
        file = getattr(sys.modules[type(env).__module__], "__file__", None)
        return {"type": name, "source_sha256": sha256(Path(file).read_bytes()).hexdigest() if file else "unknown"}
    source = "\n\n".join(sources(env))
    return {"type": name, "source_sha256": sha256(source.encode()).hexdigest(), "source": source}


def sources(env: object) -> Iterator[str]:
    """The source of an object's class, and of the functions in its fields; nothing where Python does not know it."""
    kind = type(env)
    functions = [value for value in vars(kind).values() if isinstance(value, FunctionType)]
    values = [getattr(env, field.name) for field in dataclasses.fields(env)] if dataclasses.is_dataclass(env) else []
    fields = [value for value in values if isinstance(value, FunctionType)]
    for thing in ([kind] if source(kind) else functions) + fields:
        yield source(thing)


def source(thing: Any) -> str:
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        return ""
