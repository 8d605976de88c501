"""Where environment and engine meet: text becomes tokens, episodes become groups."""

from gnomon.rollout.actor import Actor
from gnomon.rollout.render import render

__all__ = ["Actor", "render"]
