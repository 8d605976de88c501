"""Exact tests of other trainers: the gradient that a trainer computes is compared with the one that its name declares.

A trainer is a function `gradient(batch)` that returns the gradient of its loss by the name of the parameter. It runs in
its own environment, which needs nothing of this package.
"""

from gnomon.conformance.batch import Batch, Row
from gnomon.conformance.checks import conform
from gnomon.conformance.process import Trainer, trainer
from gnomon.conformance.subject import Cell, Grade

__all__ = ["Batch", "Cell", "Grade", "Row", "Trainer", "conform", "trainer"]
