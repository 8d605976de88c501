"""Where environment and engine meet: text becomes tokens, episodes become groups."""

from gnomon.rollout.actor import Actor, Limits
from gnomon.rollout.packing import pack
from gnomon.rollout.referee import Move, Referee

__all__ = ["Actor", "Limits", "Move", "Referee", "pack"]
