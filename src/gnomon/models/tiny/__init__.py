"""The tiny policy that ships: a base model of under a million weights, made by `gnomon base build`."""

from __future__ import annotations

from pathlib import Path

__all__ = ["folder"]


def folder() -> Path:
    """Its model folder."""
    return Path(__file__).parent
