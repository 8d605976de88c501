"""Routes by which the official Tinker SDK trains and samples on a learner's server."""

from gnomon_tinker.service import TinkerService

__all__ = ["TinkerService"]
