"""The training loop, evaluation and the record of a run."""

from gnomon.training.evaluate import Evaluation, evaluate
from gnomon.training.loop import draw, due, first, train
from gnomon.training.record import Recorder

__all__ = ["Evaluation", "Recorder", "draw", "due", "evaluate", "first", "train"]
