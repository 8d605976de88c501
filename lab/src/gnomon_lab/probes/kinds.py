"""The kinds of rollouts that a run has."""

from __future__ import annotations

from gnomon.errors import RunError
from gnomon.store import RunReader

__all__ = ["none_judged"]


def none_judged(reader: RunReader, kind: str) -> RunError:
    """The error for a run without judged rollouts of a kind."""
    return RunError(
        "E436",
        f"the run has no judged rollouts of the kind {kind}",
        where=str(reader.folder),
        why=f"it has {reader.count('rollout')} rollouts of training and {reader.count('held_out')} held-out ones",
    )
