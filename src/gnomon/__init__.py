"""Gnomon: reinforcement learning with verifiable rewards for language models.

One call trains: `gnomon.train("countdown")`. The nouns, the four verbs and the page below it are
importable one by one; nothing heavy is imported before it is used.
"""

from gnomon.import_path import put_in_order

put_in_order()  # Before more of the standard library is imported.

import importlib  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
from typing import TYPE_CHECKING  # noqa: E402

__version__ = "0.1.0"

SPINNING = "torch" in sys.modules and "OMP_WAIT_POLICY" not in os.environ
"""Whether torch was loaded before the next line, so that its threads spin while they wait."""
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# OpenMP reads this when torch is loaded. Its threads spin while they wait, by default, and beside other work each of
# them waits for one that is not running: a run with two threads was up to ten times slower than its share.

HOME = {
    "Actor": "gnomon.rollout",
    "Embedded": "gnomon.engines.embedded",
    "Engine": "gnomon.engines.base",
    "Key": "gnomon.keys",
    "Learner": "gnomon.learners.base",
    "LocalLearner": "gnomon.learners.local",
    "Observer": "gnomon.store",
    "Policy": "gnomon.models.policy",
    "Recorder": "gnomon.training",
    "RunConfig": "gnomon.config",
    "RunReader": "gnomon.api",
    "SingleTurn": "gnomon.envs",
    "build": "gnomon.run.local",
    "check_weights": "gnomon.engines.served",
    "configure": "gnomon.api",
    "create": "gnomon.run.local",
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
    "Engine",
    "Key",
    "Learner",
    "LocalLearner",
    "Observer",
    "Policy",
    "Recorder",
    "RunConfig",
    "RunReader",
    "SingleTurn",
    "__version__",
    "build",
    "check_weights",
    "configure",
    "create",
    "evaluate",
    "objective",
    "pack",
    "resume",
    "train",
]

if TYPE_CHECKING:
    from gnomon.api import RunReader, configure, resume, train
    from gnomon.config import RunConfig
    from gnomon.engines.base import Engine
    from gnomon.engines.embedded import Embedded
    from gnomon.engines.served import check_weights
    from gnomon.envs import SingleTurn
    from gnomon.keys import Key
    from gnomon.learners.base import Learner
    from gnomon.learners.local import LocalLearner
    from gnomon.models.policy import Policy
    from gnomon.objectives import objective
    from gnomon.rollout import Actor, pack
    from gnomon.run.local import build, create
    from gnomon.store import Observer
    from gnomon.training import Recorder
    from gnomon.training.evaluate import evaluate


def __getattr__(name: str) -> object:
    if name in HOME:
        return getattr(importlib.import_module(HOME[name]), name)
    raise AttributeError(f"module 'gnomon' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
