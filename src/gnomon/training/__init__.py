"""The page, and what stands beside it: evaluation and the record of a run."""

from gnomon.training.evaluate import Evaluation, evaluate
from gnomon.training.loop import train
from gnomon.training.record import Recorder, Watch

__all__ = ["Evaluation", "Recorder", "Watch", "evaluate", "train"]
