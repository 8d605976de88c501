"""The policy that a probe asks: a model folder, or the weights of a run with its settings."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gnomon.config import RunConfig, Source, overrides, recorded, resolve
from gnomon.launch.export import export
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
    Raises: RunError E185 for a run without such a checkpoint; ConfigErrors.
    """
    layers: list[Source] = []
    policy = name.removeprefix("policy=")
    if is_run(name):
        folder, step = split_step(name)
        layers.append(recorded(folder / RECIPE))
        policy = str(weights_of(folder, step))
    own = Source({"policy": {"path": policy, "lora": {"rank": 0}}}, {"policy.path": f"the command line: {name}"})
    return resolve([*layers, own, overrides(list(words), 2)], [check_env_config, check_policy_config])[0]


def weights_of(folder: Path, step: int | None) -> Path:
    """The checkpoint of a run as a model folder; of a run that trained an adapter, merged until this process ends.

    Raises: RunError E185.
    """
    with RunReader(folder) as reader:
        adapter = reader.genesis.get("config", {}).get("policy", {}).get("lora", {}).get("rank", 0)
    if not adapter:
        return checkpoint(folder, step)
    aside = Path(tempfile.mkdtemp(prefix="gnomon-"))
    atexit.register(shutil.rmtree, aside, ignore_errors=True)
    name = str(folder) if step is None else f"{folder}:{step}"
    return export(name, aside / "model", merged=True).folder
