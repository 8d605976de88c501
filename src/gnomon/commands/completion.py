"""Words that a shell completes: environments, recipes, objectives, settings, run folders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["env_names", "objective_names", "run_folders", "settings", "tracker_names", "trainable"]


def env_names(incomplete: str) -> list[str]:
    """Built-in environments."""
    from gnomon.envs import ENVS

    return [name for name in sorted(ENVS) if name.startswith(incomplete)]


def trainable(incomplete: str) -> list[str]:
    """What `gnomon train` takes: environments, and recipes below the path that was begun."""
    return [*env_names(incomplete), *(path for path in paths(incomplete) if path.endswith((".toml", "/")))]


def objective_names(incomplete: str) -> list[str]:
    from gnomon.objectives.options import OPTIONS

    return [name for name in sorted(OPTIONS) if name.startswith(incomplete)]


def tracker_names(incomplete: str) -> list[str]:
    from gnomon.monitoring.trackers import TRACKERS

    return [name for name in TRACKERS if name.startswith(incomplete)]


def settings(incomplete: str) -> list[str]:
    """Keys of settings, with `=`; after `objective=` and `env=` the names that may follow; recipes and folders."""
    key, sign, value = incomplete.partition("=")
    if sign:
        names = {"objective": objective_names, "objective.type": objective_names, "env": env_names}
        return [f"{key}={name}" for name in names.get(key, none)(value)]
    from gnomon.config import DEFAULTS, SHORT, leaves

    return [f"{key}=" for key in (*leaves(DEFAULTS), *SHORT, "run") if key.startswith(incomplete)]


def none(incomplete: str) -> list[str]:
    return []


def run_folders(incomplete: str) -> list[str]:
    """Folders below the path that was begun; a run folder without a slash after it."""
    return [path.rstrip("/") if has_journal(path) else path for path in paths(incomplete) if path.endswith("/")]


def has_journal(path: str) -> bool:
    return (Path(path) / "journal.db").is_file()


def paths(incomplete: str) -> Iterator[str]:
    """What lies at a path that was begun; folders end in a slash."""
    above, begun = os.path.split(incomplete)
    try:
        entries = sorted(os.scandir(above or "."), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith(begun) and (begun or not entry.name.startswith(".")):
            yield os.path.join(above, entry.name) + ("/" if entry.is_dir() else "")
