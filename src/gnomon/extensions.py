"""What other packages add to Gnomon: commands, checks before a run, panels of a run, folders of their own.

A package declares them as entry points. `gnomon.commands`: a function that adds commands to the application.
`gnomon.checks`: a function of the folder and the settings of a run that is about to start; it raises what forbids the
start. `gnomon.panels`: a function of an open run that returns a `Panel`, or None. `gnomon.folders`: named by the file
that marks a folder of another kind than a run, a function that verifies it and returns an exit code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnomon.terminal import put

if TYPE_CHECKING:
    from gnomon.config import RunConfig
    from gnomon.envs import Env
    from gnomon.store import RunReader

__all__ = ["Panel", "check_start", "extensions", "folder_check", "panels"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """What a package says of a run, for the terminal and for a page."""

    name: str
    """Key of its facts in `gnomon show --json`, and title on a page."""
    facts: Mapping[str, Any]
    """JSON values."""
    text: str
    """For a terminal."""
    sentences: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = field(default=())
    """On a page: sentences, then a table."""


@cache
def extensions(group: str) -> Mapping[str, Callable[..., Any]]:
    """What installed packages declare in a group of entry points, by name. One that cannot be loaded is left out."""
    result = {}
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        try:
            result[point.name] = point.load()
        except Exception as error:  # It is another package's code, and everything else works without it.
            why = f"{type(error).__name__}: {error}"
            put(f"the extension {point.value} cannot be loaded, so it is left out ({why})", file=sys.stderr)
    return result


def check_start(folder: Path, config: RunConfig, env: Env | None = None) -> None:
    """Raises: what a package finds wrong with a run that is about to start."""
    for check in extensions("gnomon.checks").values():
        check(folder, config, env)


def folder_check(folder: Path) -> Callable[[Path], int] | None:
    """What verifies a folder of another kind than a run; None for any other folder. Only this one is imported."""
    points = entry_points(group="gnomon.folders")
    return next((point.load() for point in points if (folder / point.name).exists()), None)


def panels(reader: RunReader) -> list[Panel]:
    """What packages say of a run."""
    return [panel for say in extensions("gnomon.panels").values() if (panel := say(reader)) is not None]
