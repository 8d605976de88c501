"""The policy that a probe asks: a model folder, or the weights of a run with its settings."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.config import RunConfig, Source, overrides, recorded_recipe, resolve
from gnomon.export.model import weights_of
from gnomon.run.find import check_env_config, check_policy_config
from gnomon.run.subject import is_run, split_step
from gnomon.store.layout import RECIPE

__all__ = ["settings_of"]


def settings_of(name: str, words: Sequence[str] = ()) -> RunConfig:
    """The settings under which a policy is asked: those of its run, or the defaults, under the `key=value` words.

    Args: name: `tiny`, a model folder, `RUN` (its newest checkpoint) or `RUN:STEP`.
    Raises: RunError E185 for a run without such a checkpoint; ConfigErrors.
    """
    layers: list[Source] = []
    policy = name.removeprefix("policy=")
    if is_run(name):
        layers.append(recorded_recipe(split_step(name)[0] / RECIPE))
        policy = str(weights_of(name))
    own = Source({"policy": {"path": policy, "lora": {"rank": 0}}}, {"policy.path": f"the command line: {name}"})
    return resolve([*layers, own, overrides(list(words), 2)], [check_env_config, check_policy_config])[0]
