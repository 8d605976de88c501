"""The training loop, evaluation and the record of a run."""

from gnomon.training.evaluate import Evaluation, EvaluationSet, evaluate, first
from gnomon.training.loop import draw, due, train
from gnomon.training.record import Recorder

__all__ = ["Evaluation", "EvaluationSet", "Recorder", "draw", "due", "evaluate", "first", "train"]
