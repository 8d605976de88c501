"""Import a log of another trainer: the whole run folder, or nothing."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from typing import Any
from uuid import uuid4

from gnomon.errors import ConfigError
from gnomon.integrations.imports import ImportedRun, import_rollouts
from gnomon.integrations.imports.files import Options
from gnomon.integrations.imports.importing import digests, follow, require_format
from gnomon.monitoring.alarms import alarms
from gnomon.store import RunReader, require_free

__all__ = ["follow_log", "import_log"]

PATTERNS = {"completions_*.parquet": "trl", "traces.jsonl": "verifiers", "*.eval": "inspect", "[0-9]*.jsonl": "verl"}
"""Formats by the names of the files that they consist of."""


def import_log(source: Path, folder: Path, format: str, correct: str, options: Options) -> dict[str, Any]:
    """Write the run folder, with its alarms. Args: format: empty to go by the names of the files.

    Raises: as `import_rollouts` and `ImportedRun`; RunError E401 where the folder holds anything.
    """
    format = format or recognise_format(source)
    require_format(format)
    require_free(folder, fix=f"gnomon import {shlex.quote(str(source))} OTHER")
    fresh = folder.absolute().parent / f".{folder.name}-{uuid4().hex[:8]}"
    fresh.parent.mkdir(parents=True, exist_ok=True)
    files = digests(source) if source.exists() else {}
    try:
        with ImportedRun(fresh, format=format, correct=correct, facts={"files": files}) as run:
            import_rollouts(source, run, format, options)
            note_alarms(run)
            with RunReader(fresh) as reader:
                steps = reader.steps
        if folder.exists():
            folder.rmdir()
        fresh.rename(folder)
    finally:
        rmtree(fresh, ignore_errors=True)
    return {"run": str(folder), "format": format, "rollouts": run.rollouts, "steps": steps}


def follow_log(
    source: Path,
    folder: Path,
    format: str,
    correct: str,
    options: Options,
    stop: Callable[[], bool],
    on_step: Callable[[int], None] = lambda step: None,
) -> dict[str, Any]:
    """Import a log while it is written, with its alarms at the end. Args and Raises: as `follow`."""
    format = format or recognise_format(source)
    facts = follow(source, folder, format, correct, options, stop, on_step, note_alarms)
    return {"run": str(folder), "format": format, **facts}


def note_alarms(run: ImportedRun) -> None:
    with RunReader(run.store.folder) as reader:
        for alarm in alarms(reader):
            run.store.note("alarm", alarm.body())


def recognise_format(source: Path) -> str:
    """The format of a file or folder. Raises: ConfigError E066 if its files have no name that shows it."""
    for pattern, format in PATTERNS.items():
        if source.match(pattern) or (source.is_dir() and next(source.rglob(pattern), None) is not None):
            return format
    raise ConfigError(
        "E066", "the names of the files do not show their format", where=str(source),
        why="" if source.exists() else "the path does not exist",
        fix=f"gnomon import {shlex.quote(str(source))} RUN --format jsonl prompt=FIELD reply=FIELD reward=FIELD",
    )  # fmt: skip
