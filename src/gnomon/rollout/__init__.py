"""Where environment and engine meet: text becomes tokens, episodes become groups."""

from gnomon.rollout.actor import Actor, Limits
from gnomon.rollout.referee import Move, Referee
from gnomon.rollout.render import follow, render

__all__ = ["Actor", "Limits", "Move", "Referee", "follow", "render"]
