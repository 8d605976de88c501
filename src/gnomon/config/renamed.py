"""Settings that had another name: refused with the present one, and understood in the recipe of a run folder."""

from __future__ import annotations

from typing import Any

from gnomon.objectives.options import RENAMED as RENAMED_OBJECTIVES

__all__ = ["RENAMED", "present"]

RENAMED = {
    "optim.clip": "optim.max_grad_norm", "optim.floor": "optim.min_lr_ratio", "critic.clip": "critic.max_grad_norm",
    "referee.workers": "workers.count", "referee.seconds": "workers.seconds",
    "referee.memory_mib": "workers.memory_mib", "referee.retries": "workers.retries",
    "referee.failures": "workers.failures",
    "seats.opponent": "players.opponent", "seats.every": "players.every", "seats.keep": "players.keep",
    "seats.baseline": "players.baseline",
}  # fmt: skip
"""Former key to present one."""

VALUES: dict[str, dict[str, str]] = {
    "objective.type": {name: former.row for name, former in RENAMED_OBJECTIVES.items() if not former.options},
    "players.baseline": {"seat": "player"},
}
"""Present key to its former values and their present names."""


def present(key: str, value: Any) -> tuple[str, Any]:
    """The present names of a key and of its value."""
    key = RENAMED.get(key, key)
    return key, VALUES.get(key, {}).get(value, value) if isinstance(value, str) else value
