"""The environments of evaluation sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gnomon.config import Env as EnvConfig
from gnomon.config import RunConfig
from gnomon.envs.base import Env
from gnomon.objectives.options import OBJECT
from gnomon.run.find import make_env

__all__ = ["set_env", "set_envs"]


def set_envs(config: RunConfig, env: Env) -> Iterator[tuple[str, EnvConfig, Env]]:
    """The evaluation sets: name, settings of the environment, and the environment. Args: env: of the run."""
    for name in config.eval.sets:
        spec = config.env_of(name)
        yield name, spec, env if spec == config.env else set_env(spec, config.env, env)


def set_env(spec: EnvConfig, main: EnvConfig, env: Env) -> Env:
    """Another environment, or that of the run with other options. Args: main, env: those of the run."""
    if spec.type != main.type or not spec.type.startswith(OBJECT):
        return make_env(spec)
    new = {key: value for key, value in spec.options.items() if main.options.get(key) != value}
    changed: Any = replace(env, **new)  # type: ignore[type-var]
    return changed  # type: ignore[no-any-return]
