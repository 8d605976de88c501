"""Engines sample completions. They never see a reward."""

from gnomon.engines.base import Engine, Tier, sample_all

__all__ = ["Engine", "Tier", "sample_all"]
