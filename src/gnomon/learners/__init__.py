"""Learners turn batches into weights. They never see a text."""

from gnomon.learners.base import Learner
from gnomon.learners.batch import Batch, TokenSequence

__all__ = ["Batch", "Learner", "TokenSequence"]
