"""Find an environment, and see that a model is there, by the name a user gives. Needs no torch."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gnomon.config import Env as EnvConfig
from gnomon.config import Origins, RunConfig, load, word_of
from gnomon.config.sources import recipes
from gnomon.envs import ENVS, Env
from gnomon.errors import ConfigError, GnomonError, ModelError, sibling
from gnomon.integrations.environments import ADAPTERS, adapter
from gnomon.integrations.rewards import from_name
from gnomon.models.backends import require_flex
from gnomon.models.folder import SHIPPED, model_folder
from gnomon.models.vocabulary import end_tokens, require_fitting
from gnomon.objectives.declaration import Rewards
from gnomon.objectives.spelling import nearest
from gnomon.run.modules import classes, load_module, no_file, unimportable
from gnomon.run.objects import OBJECT, by_object
from gnomon.run.teacher import reference_folder
from gnomon.verifiers import Slot

__all__ = ["check_env_config", "check_policy_config", "env_class", "make_env", "make_judge"]


def env_class(name: str, where: str = "env") -> type[Any]:
    """The class behind a shipped name, `package.module:Class`, `path/file.py:Class` or another library's `rg:NAME`.

    Raises: ConfigError E021 when there is none, E023 when its code does not run.
    """
    if name in ENVS:
        return ENVS[name]
    if kind := adapter(name):
        return kind[0]
    if name.startswith(OBJECT):
        raise by_object(name, where)
    module_name, colon, attribute = name.rpartition(":")
    if not colon:
        raise unknown_env(name, where)
    module = load_module(module_name, attribute, where)
    kind = getattr(module, attribute, None)
    if not isinstance(kind, type):
        names = [
            n for n, value in vars(module).items() if isinstance(value, type) and value.__module__ == module.__name__
        ]
        near = nearest(attribute, names) or next(iter(names), "")
        why = f"it has {', '.join(names)}" if names else "it defines no class; gnomon new env my_task writes an example"
        fix = f"env={module_name}:{near}" if near else "gnomon new env my_task"
        raise ConfigError("E021", f"{module_name} has no class {attribute}", where=where, why=why, fix=fix)
    return kind


def unknown_env(name: str, where: str) -> ConfigError:
    """The error for an unknown environment: a file without a class, or a misspelled name."""
    if name.endswith(".py"):
        if not Path(name).is_file():
            return no_file(name, "Class", where)
        try:
            names = [f"env={name}:{kind}" for kind in classes(Path(name))]
        except (SyntaxError, ValueError) as error:
            return unimportable(name, error, where)
        why = "an environment is a class" if names else "the file defines no class"
        fix = ", or ".join(names) or "gnomon new env my_task   # writes an example"
        return ConfigError("E021", f"{name} names a file but no class in it", where=where, why=why, fix=fix)
    why = f"the names are {', '.join(ENVS)}; file.py:Class and {':NAME, '.join(ADAPTERS)}:NAME are names too"
    if near := nearest(name, ENVS):
        why, fix = f"did you mean {near}?", f"env={near}"
    elif recipe := recipe_of(name):
        why, fix = f"the recipe {recipe} trains on these tasks", f"gnomon train {recipe}"
    elif "/" in name:
        why, fix = "the environment dataset reads data sets of the hub and folders", f"env=dataset env.path={name}"
    else:
        fix = "env=countdown, or another of these names"
    return ConfigError("E021", f"there is no environment {name!r}", where=where, why=why, fix=fix)


def recipe_of(name: str) -> str:
    """The recipe that ships for a data set with this name, with or without its owner; empty where none does."""
    for recipe, file in recipes().items():
        path = str(load(file).values["env"].get("path", "")).lower()
        if name.lower() in (path, path.rpartition("/")[2], recipe.partition("-")[0]):
            return recipe
    return ""


def check_env_config(config: RunConfig, origins: Origins) -> Iterator[ConfigError]:
    """Mistakes in the `env` table, and in those of evaluation sets."""
    yield from check_one_env(config, origins)
    for name in config.eval.sets:
        spec = config.env_of(name)
        if spec != config.env and not (spec.type == config.env.type and spec.type.startswith(OBJECT)):
            above = f"eval.sets.{name}."
            own = {key.removeprefix(above): origin for key, origin in origins.items() if key.startswith(f"{above}env.")}
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
        yield unknown_option(config.env, key, fields, origins.get(f"env.{key}", f"env.{key}"))
    switches = {key for key, field in fields.items() if isinstance(field.default, bool)}
    unclear = [key for key, value in config.env.options.items() if key in switches and not isinstance(value, bool)]
    for key in unclear:
        yield refused_option(config.env, origins, key, fields[key].default, "it must be true or false")
    if not wrong and not unclear:
        try:
            env = try_tasks(config.env)
            counts = config.objective.declaration.rewards is Rewards.BINARY
            if counts and (pays_format(env) or env.reward_range != (0.0, 1.0)):
                yield not_binary(config, origins, env)
        except GnomonError as error:
            yield ConfigError(error.code, error.what, where=error.where, why=error.why, fix=error.fix)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            yield no_task(config.env, origins, fields, why)


def unknown_option(env: EnvConfig, key: str, fields: Mapping[str, Any], where: str) -> ConfigError:
    """The error for an option that the environment does not have."""
    what = f"unknown key env.{key}: {env.type} has no such option"
    near = nearest(key, fields)
    if not near:
        why = f"it has {', '.join(fields)}" if fields else "it has no options"
        return ConfigError("E012", what, where=where, why=why, fix="leave it out")
    default = fields[near].default
    hint = "" if default is dataclasses.MISSING else f" (default {default!r})"
    fix = word_of(f"env.{near}", env.options[key])
    return ConfigError("E012", what, where=where, why=f"did you mean env.{near}{hint}?", fix=fix)


def try_tasks(config: EnvConfig) -> Env:
    """The environment, after it has made a task of each split."""
    env = make_env(config)
    env.tasks("train")[0], env.tasks("test")[0]
    return env


def no_task(config: EnvConfig, origins: Origins, fields: Mapping[str, Any], why: str) -> ConfigError:
    """An environment that cannot be made, and the first option without which it could."""
    for key in config.options:
        try:
            rest = {name: value for name, value in config.options.items() if name != key}
            try_tasks(EnvConfig(type=config.type, **rest))
        except Exception:
            continue
        return refused_option(config, origins, key, fields[key].default, why)
    return ConfigError("E024", f"{config.type} cannot make a task with these options", where="env", why=why)


def refused_option(config: EnvConfig, origins: Origins, key: str, default: object, why: str) -> ConfigError:
    """An option with a value that the environment cannot use."""
    where = origins.get(f"env.{key}", f"env.{key}")
    what = f"{config.type} cannot make a task with env.{key}={config.options[key]!r}"
    fix = word_of(f"env.{key}", default) if isinstance(default, str | int | float | tuple) else "leave it out"
    return ConfigError("E024", what, where=where, why=why, fix=fix)


def not_binary(config: RunConfig, origins: Origins, env: Env) -> ConfigError:
    """An objective that counts successes, and an environment that pays something between or beyond."""
    paid, (low, high) = pays_format(env), env.reward_range
    return ConfigError(
        "E033",
        f"{config.objective.type} needs rewards of 0 or 1, and {config.env.type} gives other rewards",
        where=origins.get("objective.type", "objective.type"),
        why="it rewards the format as well as the answer" if paid else f"its rewards range from {low:g} to {high:g}",
        fix="env.format=0" if paid else "objective=rloo, which accepts any reward",
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
                fix=word_of("rollout.stop", ["</answer>"])
                + ', or "eos_token_id" in generation_config.json of the folder',
            )  # fmt: skip
        if key == "policy.reference":
            yield from unfit_reference(config, origins)
    demonstrations = config.rollout.demonstrations
    if demonstrations and config.objective.declaration.demonstrated and not Path(demonstrations).is_file():
        where = origins.get("rollout.demonstrations", "rollout.demonstrations")
        near = sibling(demonstrations)
        fix = word_of("rollout.demonstrations", near) if near else "give a path relative to this folder"
        yield ConfigError("E035", f"there is no file {demonstrations}", where=where, fix=fix)


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
    pair = None if name in ENVS else adapter(name)
    return dict(pair[1]) if pair else {}


def make_judge(name: str, options: Mapping[str, Any]) -> Any:
    """An environment or a verifier by its name, with its options; `trl:…` and the like are foreign reward functions.

    Raises: ConfigError E123 when it cannot be made.
    """
    supplied = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    try:
        if foreign := from_name(name, **supplied):
            return foreign
        return env_class(name, "the command line")(**named_option(name), **supplied)
    except (TypeError, ValueError) as error:
        fix = "use key=value with the names of its fields"
        raise ConfigError("E123", f"{name} cannot be made", where=name, why=str(error), fix=fix) from error
