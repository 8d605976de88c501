"""Learners turn batches into weights. They never see a text."""

from gnomon.learners.base import Learner
from gnomon.learners.batch import Batch, Sequence

__all__ = ["Batch", "Learner", "Sequence"]
