"""The page, and what stands beside it: evaluation and the record of a run."""

from gnomon.train.evaluate import Evaluation, evaluate
from gnomon.train.loop import train
from gnomon.train.record import Recorder, Watch

__all__ = ["Evaluation", "Recorder", "Watch", "evaluate", "train"]
