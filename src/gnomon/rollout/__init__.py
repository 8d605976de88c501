"""Rollouts: play environments with an engine, and pack the episodes into training sequences."""

from gnomon.rollout.actor import Actor
from gnomon.rollout.packing import pack
from gnomon.rollout.runner import Limits

__all__ = ["Actor", "Limits", "pack"]
