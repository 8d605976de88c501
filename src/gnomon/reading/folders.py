"""The run folders below a place, each under the path that leads to it, and a row of facts about each."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gnomon.config import leaves
from gnomon.errors import GnomonError
from gnomon.store import RunReader
from gnomon.store.layout import JOURNAL
from gnomon.store.notes import note_of

__all__ = ["glance", "next_folder", "pass_at_1", "run_folders"]

DEPTH = 5
"""Levels below a given folder in which runs are looked for."""


def run_folders(roots: Sequence[Path]) -> dict[str, Path]:
    """Name to folder: the folder's own name for a run that was given itself, else its path below the given folder."""
    folders: dict[str, Path] = {}
    for root in roots:
        for folder in below(root.resolve(), DEPTH):
            name = str(folder.relative_to(root.resolve())) if folder != root.resolve() else folder.name
            name = name.encode("utf-8", "replace").decode()  # A name on the disk may be no valid text.
            while name in folders and folders[name] != folder:
                name += "~"
            folders[name] = folder
    return dict(sorted(folders.items()))


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


def next_folder(name: str, prefix: str = "") -> Path:
    """The first free folder under `runs`. Args: name: the type of an environment, or the name of its class."""
    stem, number = prefix + Path(name.partition(":")[0]).stem, 1
    while (folder := Path("runs") / f"{stem}-{number}").exists():
        number += 1
    return folder


def glance(name: str, folder: Path) -> dict[str, Any]:
    """A row of the table of runs; `error` says why a folder cannot be read."""
    try:
        with RunReader(folder) as reader:
            recipe = leaves(tomllib.loads(reader.recipe))
            baseline, held_out = reader.baseline, reader.held_out
            note = note_of(folder)
            env, objective, policy = (str(recipe.get(key, "")) for key in ("env.type", "objective.type", "policy.path"))
            return {
                "name": name,
                "env": f"imported from {reader.import_format}" if reader.import_format else env,
                "objective": objective,
                "policy": policy,
                "lr": recipe.get("optim.lr"),
                "status": reader.status.value,
                "steps": reader.steps,
                "budget": recipe.get("budget.steps"),
                "baseline": pass_at_1(baseline),
                "held_out": pass_at_1(held_out),
                "alarms": len(reader.alarms()),
                "fingerprint": reader.fingerprint,
                "at": reader.written_at,
                "note": note.text,
                "tags": list(note.tags),
            }
    except (GnomonError, tomllib.TOMLDecodeError) as error:
        return {"name": name, "error": str(error).splitlines()[0]}


def pass_at_1(body: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Value and 95 % interval of an evaluation's pass@1."""
    rates: Mapping[str, Mapping[str, Any]] = (body or {}).get("pass_at", {})  # Other programs may log rewards alone.
    return rates.get("1")
