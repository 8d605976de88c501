"""The voice: engines sample completions. They never see a reward."""

from gnomon.engines.base import Engine, Tier

__all__ = ["Engine", "Tier"]
