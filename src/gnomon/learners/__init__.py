"""The mind: learners turn batches into weights. They never see a text."""

from gnomon.learners.base import Learner
from gnomon.learners.batch import Batch, Row, pack

__all__ = ["Batch", "Learner", "Row", "pack"]
