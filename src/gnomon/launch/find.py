"""Find an environment, and see that a model is there, by the name a user gives. Needs no torch."""

from __future__ import annotations

import ast
import dataclasses
import difflib
import importlib
import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

from gnomon.config import Env as EnvConfig
from gnomon.config import Origins, RunConfig
from gnomon.envs import ENVS, Env
from gnomon.envs.blame import place, quoted, raised
from gnomon.errors import ConfigError, GnomonError, ModelError
from gnomon.integrations.environments import ADAPTERS, adapter
from gnomon.integrations.rewards import named
from gnomon.launch.objects import OBJECT, by_object
from gnomon.launch.teacher import reference_folder
from gnomon.models.backends import require_flex
from gnomon.models.folder import SHIPPED, model_folder
from gnomon.models.vocabulary import end_tokens, require_fitting
from gnomon.objectives.declaration import Rewards
from gnomon.verifiers import Slot
from gnomon.workers.fork_server import WORKER

__all__ = ["check_env_config", "check_policy_config", "env_class", "judge", "make_env", "require_outside"]


def env_class(name: str, where: str = "env") -> type[Any]:
    """The class behind a shipped name, `package.module:Class`, `path/file.py:Class` or another library's `rg:NAME`.

    Raises: ConfigError E021 when there is none, E023 when its code does not run.
    """
    if name in ENVS:
        return ENVS[name]
    if found := adapter(name):
        return found[0]
    if name.startswith(OBJECT):
        raise by_object(name, where)
    module_name, colon, attribute = name.rpartition(":")
    if not colon:
        raise unknown_env(name, where)
    module = imported(module_name, where)
    found = getattr(module, attribute, None)
    if not isinstance(found, type):
        names = [
            n for n, value in vars(module).items() if isinstance(value, type) and value.__module__ == module.__name__
        ]
        raise ConfigError(
            "E021", f"{module_name} has no class {attribute}", where=where, fix=f"it has {', '.join(names) or 'none'}"
        )
    return found


def unknown_env(name: str, where: str) -> ConfigError:
    """The error for an unknown environment: a file without a class, or a misspelled name."""
    if name.endswith(".py"):
        if not Path(name).is_file():
            fix = "give a path relative to this folder: dir/file.py:Class"
            return ConfigError("E021", f"there is no file {name}", where=where, fix=fix)
        try:
            found = [f"{name}:{kind}" for kind in classes(Path(name))]
        except (SyntaxError, ValueError) as error:
            return unimportable(name, error, where)
        why = "" if found else "the file defines no class; gnomon new env my_task writes an example"
        fix = "name a class of the file: " + " or ".join(found) if found else "file.py:Class"
        return ConfigError("E021", f"{name} names a file but no class in it", where=where, why=why, fix=fix)
    near = difflib.get_close_matches(name, ENVS, 1)
    fix = f"one of {', '.join(ENVS)}, or file.py:Class, or {':NAME, '.join(ADAPTERS)}:NAME"
    return ConfigError("E021", f"there is no environment {name!r}", where=where, fix=f"env={near[0]}" if near else fix)


def classes(path: Path) -> list[str]:
    """The classes at the top of a file, without running it. Raises: SyntaxError or ValueError for what is no Python."""
    body = ast.parse(path.read_bytes(), str(path)).body
    return [node.name for node in body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def imported(name: str, where: str) -> ModuleType:
    """The module of a file or a dotted name. Raises: ConfigError E021 for no file, E023 for code that does not run."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    LOADING.append(name)
    try:
        return from_file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
    except FileNotFoundError as error:
        if Path(name).is_file():
            raise unimportable(name, error, where) from error
        raise ConfigError(
            "E021",
            f"there is no file {name}",
            where=where,
            fix="give a path relative to this folder: dir/file.py:Class",
        ) from error
    except GnomonError:
        raise
    except Exception as error:
        raise unimportable(name, error, where) from error
    finally:
        LOADING.pop()


def unimportable(name: str, error: Exception, where: str) -> ConfigError:
    """The error for a module that does not run, at the author's line."""
    line = quoted(place(error, None))
    if isinstance(error, SyntaxError) and error.filename:
        line = f"{Path(error.filename).name}:{error.lineno}: {(error.text or '').strip()}"
    missing = isinstance(error, ModuleNotFoundError) and error.name
    fix = f"pip install {error.name}, or start in a folder from which {error.name} can be imported" if missing else ""  # type: ignore[attr-defined]
    if "frozen dataclass" in str(error):
        fix = "write @dataclass(frozen=True, kw_only=True) above the class"
    return ConfigError("E023", f"{name} cannot be imported: {raised(error)}", where=line or where, fix=fix)


LOADING: list[str] = []
"""Modules that are being imported for a run, the innermost last."""


def require_outside() -> None:
    """Raises: ConfigError E026 for a run that would start because its environment's file is imported."""
    if LOADING or WORKER in os.environ:
        raise ConfigError(
            "E026", "a run cannot start while a file is imported" + (f": {LOADING[-1]}" if LOADING else ""),
            why="every worker process imports the file of the environment and would start the run again",
            fix='put the call under `if __name__ == "__main__":`',
        )  # fmt: skip


def from_file(path: Path) -> ModuleType:
    """The module of a file, loaded once under a name made of its path."""
    path = path.resolve()
    name = "gnomon_env_" + sha256(str(path).encode()).hexdigest()[:12]
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def check_env_config(config: RunConfig, origins: Origins) -> Iterator[ConfigError]:
    """Mistakes in the `env` table, and in those of evaluation sets."""
    yield from check_one_env(config, origins)
    for name in config.eval.sets:
        spec = config.env_of(name)
        if spec != config.env and not (spec.type == config.env.type and spec.type.startswith(OBJECT)):
            above = f"eval.sets.{name}."
            own = {key.removeprefix(above): place for key, place in origins.items() if key.startswith(f"{above}env.")}
            # Its rewards are not trained on, so that any objective goes with them.
            alone = RunConfig(env=spec)
            for error in check_one_env(alone, {"env.type": f"{above}env", **own}):
                what, where, fix = (
                    re.sub(r"(?<![.\w])env(?=$|[.=])", f"{above}env", text)
                    for text in (error.what, error.where, error.fix)
                )
                yield ConfigError(error.code, what, where=where, why=error.why, fix=fix)


def check_one_env(config: RunConfig, origins: Origins) -> Iterator[ConfigError]:
    """Mistakes in the `env` table."""
    try:
        kind = env_class(config.env.type, origins.get("env.type", "env.type"))
    except ConfigError as error:
        yield error
        return
    fields = {field.name: field for field in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else {}
    wrong = [key for key in config.env.options if key not in fields]
    for key in wrong:
        near = difflib.get_close_matches(key, fields, 1)
        fix = (
            f"did you mean env.{near[0]} (default {fields[near[0]].default!r})?"
            if near
            else f"it has {', '.join(fields)}"
        )
        where = origins.get(f"env.{key}", f"env.{key}")
        yield ConfigError("E012", f"unknown key env.{key}: {config.env.type} has no such option", where=where, fix=fix)
    switches = {key for key, field in fields.items() if isinstance(field.default, bool)}
    unclear = [key for key, value in config.env.options.items() if key in switches and not isinstance(value, bool)]
    for key in unclear:
        yield refused_option(config.env, origins, key, fields[key].default, "it must be true or false")
    if not wrong and not unclear:
        try:
            env = tried(config.env)
            counts = config.objective.declared.rewards is Rewards.BINARY
            if counts and (pays_format(env) or env.reward_range != (0.0, 1.0)):
                yield not_binary(config, origins, env)
        except ConfigError as error:
            yield error
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            yield no_task(config.env, origins, fields, why)


def tried(config: EnvConfig) -> Env:
    """The environment, after it has made a task of each split."""
    env = make_env(config)
    env.tasks("train")[0], env.tasks("test")[0]
    return env


def no_task(config: EnvConfig, origins: Origins, fields: Mapping[str, Any], why: str) -> ConfigError:
    """An environment that cannot be made, and the first option without which it could."""
    for key in config.options:
        try:
            rest = {name: value for name, value in config.options.items() if name != key}
            tried(EnvConfig(type=config.type, **rest))
        except Exception:
            continue
        return refused_option(config, origins, key, fields[key].default, why)
    return ConfigError("E024", f"{config.type} cannot make a task with these options", where="env", why=why)


def refused_option(config: EnvConfig, origins: Origins, key: str, default: object, why: str) -> ConfigError:
    """An option with a value that the environment cannot use."""
    where = origins.get(f"env.{key}", f"env.{key}")
    what = f"{config.type} cannot make a task with env.{key}={config.options[key]!r}"
    fix = f"env.{key}={json.dumps(default)}" if isinstance(default, str | int | float | tuple) else "leave it out"
    return ConfigError("E024", what, where=where, why=why, fix=fix)


def not_binary(config: RunConfig, origins: Origins, env: Env) -> ConfigError:
    """An objective that counts successes, and an environment that pays something between or beyond."""
    paid, (low, high) = pays_format(env), env.reward_range
    return ConfigError(
        "E033",
        f"{config.objective.type} needs rewards of 0 or 1, and {config.env.type} gives other rewards",
        where=origins.get("objective.type", "objective.type"),
        why="it rewards the format as well as the answer" if paid else f"its rewards range from {low:g} to {high:g}",
        fix="env.format=0" if paid else "objective=rloo accepts any reward",
    )


def pays_format(env: Env) -> bool:
    """Whether a reply earns something for its form alone."""
    return isinstance(env, Slot) and env.format != 0


def check_policy_config(config: RunConfig, origins: Origins) -> Iterator[ConfigError]:
    """Model folders that are not there, or whose tokenizer does not fit; data that is not there; sizes that clash."""
    folders = {"policy.path": config.policy.path}
    if config.players.opponent not in ("", "past"):
        folders["players.opponent"] = config.players.opponent
    if config.policy.reference:
        folders["policy.reference"] = config.policy.reference
    for key, path in folders.items():
        try:
            if (folder := model_folder(path)) not in SHIPPED.values():
                require_fitting(folder)
            if config.policy.attention == "flex" and key != "players.opponent":
                require_flex(folder)
        except ModelError as error:
            where = origins.get(key, key)
            fix = error.fix if key == "policy.path" else error.fix.replace("policy=", f"{key}=")
            yield ConfigError(error.code, f"{error.what}: {error.where}", where=where, why=error.why, fix=fix)
            continue
        if key == "policy.path" and not (end_tokens(folder) or config.rollout.stop):
            yield ConfigError(
                "E318", f"replies never end: {path} has no end token and rollout.stop is empty",
                where=origins.get("rollout.stop", "rollout.stop"),
                why="every reply would be truncated at rollout.max_tokens",
                fix='set "eos_token_id" in generation_config.json of the folder, or rollout.stop=["</answer>"]',
            )  # fmt: skip
        if key == "policy.reference":
            yield from unfit_reference(config, origins)
    shown = config.rollout.demonstrations
    if shown and config.objective.declared.demonstrated and not Path(shown).is_file():
        where = origins.get("rollout.demonstrations", "rollout.demonstrations")
        yield ConfigError("E035", f"there is no file {shown}", where=where, fix="give a path relative to this folder")


def unfit_reference(config: RunConfig, origins: Origins) -> Iterator[ConfigError]:
    """A reference that does not read the tokens of the policy."""
    with suppress(ModelError):  # A fault of the policy's own folder, which is reported by itself.
        try:
            reference_folder(config)
        except ConfigError as error:
            where = f"{origins.get('policy.reference', 'policy.reference')} ({error.where})"
            yield ConfigError(error.code, error.what, where=where, why=error.why, fix=error.fix)


def make_env(config: EnvConfig) -> Env:
    """The environment with its options; lists become the tuples that a frozen class wants."""
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in config.options.items()}
    env: Env = env_class(config.type)(**named_option(config.type), **options)
    return env


def named_option(name: str) -> dict[str, Any]:
    """The option that a name of another library's environment gives."""
    found = None if name in ENVS else adapter(name)
    return dict(found[1]) if found else {}


def judge(name: str, options: Mapping[str, Any]) -> Any:
    """An environment or a verifier by its name, with its options; `trl:…` and the like are foreign reward functions.

    Raises: ConfigError E123 when it cannot be made.
    """
    supplied = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    try:
        if foreign := named(name, **supplied):
            return foreign
        return env_class(name, "the command line")(**named_option(name), **supplied)
    except (TypeError, ValueError) as error:
        fix = "use key=value with the names of its fields"
        raise ConfigError("E123", f"{name} cannot be made", where=name, why=str(error), fix=fix) from error
