"""The data of a run: its paths by setting, and its hashes.

An environment that reads files has `files`: by the name of an option, the path of a file, or of a folder of files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import file_digest, sha256
from pathlib import Path

from gnomon.config import RunConfig
from gnomon.envs import offers
from gnomon.envs.base import Env
from gnomon.errors import RunError
from gnomon.run.evaluation_envs import set_envs
from gnomon.store import RunReader

__all__ = ["anchored_data", "data_files", "data_hashes", "digest", "require_same_data"]


def data_files(config: RunConfig, env: Env) -> dict[str, Path]:
    """Every file or folder that a run's tasks come from, by its setting."""
    files = {f"env.{option}": Path(path) for option, path in offers.files(env).items()}
    for name, own in own_envs(config, env):
        files |= {f"eval.sets.{name}.env.{option}": Path(path) for option, path in offers.files(own).items()}
    if config.rollout.demonstrations:
        files["rollout.demonstrations"] = Path(config.rollout.demonstrations)
    if config.rollout.recorded:
        files["rollout.recorded"] = Path(config.rollout.recorded)
    return {setting: path.resolve() for setting, path in files.items()}


def data_hashes(config: RunConfig, env: Env) -> dict[str, str]:
    """SHA-256 of all data, in hexadecimal digits, by its setting; of a recorded run its fingerprint.

    Raises: RunError E191 for data that is gone, E404 for a run that is gone.
    """
    hashes = {f"env.{option}": content for option, content in offers.contents(env).items()}
    for name, own in own_envs(config, env):
        hashes |= {f"eval.sets.{name}.env.{option}": content for option, content in offers.contents(own).items()}
    for setting, path in data_files(config, env).items():
        try:
            hashes[setting] = fingerprint(path) if setting == "rollout.recorded" else digest(path)
        except OSError as error:
            fix = "restore the file, or set the path to its new place"
            raise RunError(
                "E191", "data cannot be read", where=f"{setting} = {path}", why=error.strerror or "", fix=fix
            ) from error
    return hashes


def fingerprint(run: Path) -> str:
    """Of a run folder. Raises: RunError E404 where there is none."""
    with RunReader(run) as reader:
        return reader.fingerprint


def own_envs(config: RunConfig, env: Env) -> Iterator[tuple[str, Env]]:
    """The environments of evaluation sets that are not that of the run, by name of the set."""
    return ((name, own) for name, _, own in set_envs(config, env) if own is not env)


def digest(path: Path) -> str:
    """Of a file; of a folder, over the names and hashes of all files in it. Raises: OSError, where it is not there."""
    if not path.is_dir():
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    total = sha256()
    for each in sorted(each for each in path.rglob("*") if each.is_file()):
        total.update(f"{each.relative_to(path)}\0{digest(each)}\n".encode())
    return total.hexdigest()


def anchored_data(config: RunConfig, env: Env) -> RunConfig:
    """The configuration with the paths of its data made absolute."""
    rollout, files = config.rollout, data_files(config, env)
    for name in ("demonstrations", "recorded"):
        if f"rollout.{name}" in files:
            rollout = rollout.model_copy(update={name: str(files[f"rollout.{name}"])})
    # Shipped data is found by name.
    own = {name: path for name, path in offers.files(env).items() if config.env.options.get(name) == path}
    supplied = {name: str(files[f"env.{name}"]) for name in own}
    sets = dict(config.eval.sets)
    for name, its in own_envs(config, env):
        table = sets[name].env
        paths = {
            key: str(files[f"eval.sets.{name}.env.{key}"])
            for key, path in offers.files(its).items()
            if table.get(key) == path
        }
        sets[name] = sets[name].model_copy(update={"env": {**table, **paths}})
    evaluation = config.eval.model_copy(update={"sets": sets})
    changed = {"env": config.env.model_copy(update=supplied), "rollout": rollout, "eval": evaluation}
    return config.model_copy(update=changed)


def require_same_data(config: RunConfig, env: Env, before: Mapping[str, str], folder: Path) -> None:
    """Raises: RunError E190 if data has changed since the run began.

    Args: before: the recorded hashes; folder: the run's folder.
    """
    now, paths = data_hashes(config, env), data_files(config, env)
    for setting, was in before.items():
        if setting in now and now[setting] != was:
            raise RunError(
                "E190",
                "the data has changed since the run began",
                where=f"{setting} = {paths.get(setting, config.env.options.get(setting.removeprefix('env.')))}",
                why=f"its SHA-256 was {was[:16]}… and is now {now[setting][:16]}…; steps would use other tasks",
                fix=f"restore the old data, or start a new run: gnomon train {folder}/recipe.toml run=OTHER",
            )
