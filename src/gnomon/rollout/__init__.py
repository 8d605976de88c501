"""Where environment and engine meet: text becomes tokens, episodes become groups."""

from gnomon.rollout.actor import Actor, Limits
from gnomon.rollout.packing import pack

__all__ = ["Actor", "Limits", "pack"]
