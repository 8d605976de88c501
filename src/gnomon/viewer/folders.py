"""The run folders that are shown, each under the name that stands in its address."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from gnomon.store.layout import JOURNAL

__all__ = ["run_folders"]

DEPTH = 5
"""Levels below a given folder in which runs are looked for."""


def run_folders(places: Sequence[Path]) -> dict[str, Path]:
    """Name to folder: the folder's own name for a run that was given itself, else its path below the given folder."""
    found: dict[str, Path] = {}
    for place in places:
        for folder in below(place.resolve(), DEPTH):
            name = str(folder.relative_to(place.resolve())) if folder != place.resolve() else folder.name
            name = name.encode("utf-8", "replace").decode()  # A name on the disk may be no valid text.
            while name in found and found[name] != folder:
                name += "~"
            found[name] = folder
    return dict(sorted(found.items()))


def below(folder: Path, depth: int) -> Iterator[Path]:
    """The run folders at or below a folder. A run folder holds no other run."""
    if (folder / JOURNAL).is_file():
        yield folder
    elif depth:
        try:
            entries = [entry for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return
        for entry in entries:
            yield from below(Path(entry.path), depth - 1)
