"""Gnomon: reinforcement learning with verifiable rewards for language models.

One call trains: `gnomon.train("countdown")`. The nouns, the four verbs and the page below it are
importable one by one; nothing heavy is imported before it is used.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

__version__ = "0.1.0"

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# OpenMP reads this when torch is loaded. Its threads spin while they wait, by default, and beside other work each of
# them waits for one that is not running: a run with two threads was up to ten times slower than its share.

HOME = {
    "Actor": "gnomon.rollout",
    "Embedded": "gnomon.engines.embedded",
    "Key": "gnomon.keys",
    "LocalLearner": "gnomon.learners.local",
    "Policy": "gnomon.models.policy",
    "RunConfig": "gnomon.config",
    "RunReader": "gnomon.store",
    "SingleTurn": "gnomon.envs",
    "evaluate": "gnomon.training.evaluate",
    "objective": "gnomon.objectives",
    "pack": "gnomon.rollout",
    "resume": "gnomon.api",
    "train": "gnomon.api",
}
"""Public name to the module that defines it."""

__all__ = [
    "Actor",
    "Embedded",
    "Key",
    "LocalLearner",
    "Policy",
    "RunConfig",
    "RunReader",
    "SingleTurn",
    "__version__",
    "evaluate",
    "objective",
    "pack",
    "resume",
    "train",
]

if TYPE_CHECKING:
    from gnomon.api import resume, train
    from gnomon.config import RunConfig
    from gnomon.engines.embedded import Embedded
    from gnomon.envs import SingleTurn
    from gnomon.keys import Key
    from gnomon.learners.local import LocalLearner
    from gnomon.models.policy import Policy
    from gnomon.objectives import objective
    from gnomon.rollout import Actor, pack
    from gnomon.store import RunReader
    from gnomon.training.evaluate import evaluate


def __getattr__(name: str) -> object:
    if name in HOME:
        return getattr(importlib.import_module(HOME[name]), name)
    raise AttributeError(f"module 'gnomon' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
