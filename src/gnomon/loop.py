"""The parts of a training loop of your own, as examples/low_level.py puts them together."""

from gnomon.api import configure
from gnomon.config import RunConfig
from gnomon.engines.base import Engine
from gnomon.engines.embedded import Embedded
from gnomon.keys import Key
from gnomon.learners.base import Learner
from gnomon.learners.local import LocalLearner
from gnomon.models.policy import Policy
from gnomon.objectives import objective
from gnomon.rollout import Actor, pack
from gnomon.run.parts import build
from gnomon.run.start import create
from gnomon.store import Observer
from gnomon.training import Recorder, draw, due, first
from gnomon.training.evaluate import evaluate

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
    "build",
    "configure",
    "create",
    "draw",
    "due",
    "evaluate",
    "first",
    "objective",
    "pack",
]
