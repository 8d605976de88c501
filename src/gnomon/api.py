"""One call that trains, for a script; the same bytes as the command line's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gnomon.config import Source, resolve
from gnomon.envs import Env
from gnomon.launch.find import check_env_config, check_policy_config, spec_of
from gnomon.store import RunReader, require_free

__all__ = ["configure", "resume", "train"]


def train(env: str | Env, *, run: str | Path, quiet: bool = False, **settings: Any) -> RunReader:
    """Train a policy on an environment and return the finished run, open for reading.

    Args:
        env: a shipped name, `file.py:Class`, or an environment object (its class must stand in a file).
        run: the folder to record in; it must not hold a run.
        settings: of `RunConfig`; tables as mappings (`optim={"lr": 3e-4}`), and the short names of the
            command line (`group=8`, `steps=50`, `policy=FOLDER`).
    Raises: ConfigErrors with every mistake at once; RunError E401 when the folder holds a run.
    """
    from gnomon.launch.display import Display, Silent
    from gnomon.launch.local import start

    config, built = configure(env, settings)
    require_free(run)
    if quiet:
        return start(Path(run), config, Silent(), built)
    with Display(config) as display:
        return start(Path(run), config, display, built)


def resume(run: str | Path, *, accept_divergence: bool = False) -> RunReader:
    """Go on with a run that was stopped or killed, to the same bytes.

    Args:
        accept_divergence: go on although the run does not repeat what it recorded after its checkpoint. The old
            records are kept as an attempt, and the run counts as one that varies from then on.
    Raises: RunError E403 for an exact run that does not repeat what it recorded.
    """
    from gnomon.config import load
    from gnomon.launch.display import Display
    from gnomon.launch.local import resume as go_on

    RunReader(run).close()  # E404, if it is no run
    config, _ = resolve([load(Path(run) / "recipe.toml")])
    with Display(config) as display:
        return go_on(Path(run), display, accept_divergence=accept_divergence)


def configure(env: str | Env, settings: Mapping[str, Any]) -> tuple[Any, Env | None]:
    """The configuration of a call, and the environment where an object was given."""
    given: dict[str, Any] = dict(settings)
    built = None if isinstance(env, str) else env
    given["env"] = {"type": env} if isinstance(env, str) else spec_of(env)
    if isinstance(env, str) and isinstance(settings.get("env"), Mapping):
        given["env"] |= settings["env"]
    origins = {key: "the call of gnomon.train" for key in given}
    config, _ = resolve(
        [Source(given, origins)], [check_policy_config] if built else [check_env_config, check_policy_config]
    )
    return config, built
