"""Gnomon: reinforcement learning with verifiable rewards for language models.

One call trains: `gnomon.train("countdown")`. The parts of a training loop of your own are in `gnomon.loop`.
Nothing heavy is imported before it is used.
"""

from gnomon.import_path import put_in_order

put_in_order()  # Before more of the standard library is imported.

import importlib  # noqa: E402
import os  # noqa: E402
from typing import TYPE_CHECKING  # noqa: E402

__version__ = "0.1.0"

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# OpenMP reads this when torch is loaded. Its threads spin while they wait, by default, and beside other work each of
# them waits for one that is not running: a loop with two threads was up to ten times slower than its share.

HOME = {
    "Env": "gnomon.envs",
    "Message": "gnomon.types",
    "RunReader": "gnomon.api",
    "SingleTurn": "gnomon.envs",
    "Task": "gnomon.types",
    "Verdict": "gnomon.types",
    "check_weights": "gnomon.engines.served",
    "evaluate": "gnomon.api",
    "identity": "gnomon.envs",
    "objective": "gnomon.objectives",
    "open": "gnomon.api",
    "resume": "gnomon.api",
    "train": "gnomon.api",
}
"""Public name to the module that defines it. The parts of a loop of your own are in `gnomon.loop`."""

__all__ = [
    "Env",
    "Message",
    "RunReader",
    "SingleTurn",
    "Task",
    "Verdict",
    "__version__",
    "check_weights",
    "evaluate",
    "identity",
    "loop",
    "objective",
    "open",
    "resume",
    "train",
]

if TYPE_CHECKING:
    from gnomon import loop
    from gnomon.api import RunReader, evaluate, open, resume, train
    from gnomon.engines.served import check_weights
    from gnomon.envs import Env, SingleTurn, identity
    from gnomon.objectives import objective
    from gnomon.types import Message, Task, Verdict


def __getattr__(name: str) -> object:
    from gnomon.errors import explain_missing_package

    with explain_missing_package():
        if name in HOME:
            return getattr(importlib.import_module(HOME[name]), name)
        if name == "loop":
            return importlib.import_module("gnomon.loop")
    raise AttributeError(f"module 'gnomon' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
