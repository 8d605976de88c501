"""The policy that a probe asks: a model folder, or the weights of a run with its settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gnomon.config import RunConfig, Source, overrides, recorded, resolve
from gnomon.errors import RunError
from gnomon.launch.find import check_env_config, check_policy_config
from gnomon.launch.saved import checkpoint, split_step
from gnomon.store import RunReader
from gnomon.store.layout import RECIPE

__all__ = ["is_run", "settings_of"]


def is_run(name: str) -> bool:
    """Whether a name is `RUN` or `RUN:STEP`."""
    return (split_step(name)[0] / RECIPE).is_file()


def settings_of(name: str, words: Sequence[str] = ()) -> RunConfig:
    """The settings under which a policy is asked: those of its run, or the defaults, under the `key=value` words.

    Args: name: `tiny`, a model folder, `RUN` (its newest checkpoint) or `RUN:STEP`.
    Raises: RunError E185 for a run without such a checkpoint, E437 for one that trained an adapter; ConfigErrors.
    """
    layers: list[Source] = []
    policy = name.removeprefix("policy=")
    if is_run(name):
        folder, step = split_step(name)
        layers.append(recorded(folder / RECIPE))
        policy = str(weights_of(folder, step))
    own = Source({"policy": {"path": policy}}, {"policy.path": f"the command line: {name}"})
    return resolve([*layers, own, overrides(list(words), 2)], [check_env_config, check_policy_config])[0]


def weights_of(folder: Path, step: int | None) -> Path:
    """The checkpoint of a run as a model folder. Raises: RunError E185, E437."""
    with RunReader(folder) as reader:
        adapter = reader.genesis.get("config", {}).get("policy", {}).get("lora", {}).get("rank", 0)
    if adapter:
        raise RunError(
            "E437",
            "the run trained an adapter, which is not a model folder",
            where=str(folder),
            why="a probe asks a whole model",
            fix=f"gnomon export {folder} FOLDER --merged, and name FOLDER in the place of the run",
        )
    return checkpoint(folder, step)
