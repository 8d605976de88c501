"""Rollouts: play environments with an engine, and pack the episodes into training sequences."""

from gnomon.rollout.actor import Actor, Limits
from gnomon.rollout.packing import pack

__all__ = ["Actor", "Limits", "pack"]
