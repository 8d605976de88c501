"""Import a log of another trainer: the whole run folder, or nothing."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any
from uuid import uuid4

from gnomon.errors import ConfigError
from gnomon.integrations.imports import ImportedRun, import_rollouts
from gnomon.integrations.imports.files import Options
from gnomon.integrations.imports.importing import Format, Steps, digests, require_format
from gnomon.integrations.imports.rollout import Foreign
from gnomon.launch.interrupt import Stop
from gnomon.monitoring.alarms import alarms
from gnomon.store import RunReader, require_free

__all__ = ["followed", "imported"]

SECONDS = 0.5
"""Between two looks at a log that is followed."""
PATTERNS = {"completions_*.parquet": "trl", "traces.jsonl": "verifiers", "*.eval": "inspect", "[0-9]*.jsonl": "verl"}
"""Formats by the names of the files that they consist of."""


def imported(source: Path, folder: Path, format: str, correct: str, options: Options) -> dict[str, Any]:
    """Write the run folder, with its alarms. Args: format: empty to go by the names of the files.

    Raises: as `import_rollouts` and `ImportedRun`; RunError E401 where the folder holds anything.
    """
    format = format or recognised(source)
    require_format(format)
    require_free(folder)
    fresh = folder.absolute().parent / f".{folder.name}-{uuid4().hex[:8]}"
    fresh.parent.mkdir(parents=True, exist_ok=True)
    files = digests(source) if source.exists() else {}
    try:
        with ImportedRun(fresh, format=format, correct=correct, facts={"files": files}) as run:
            import_rollouts(source, run, format, options)
            with RunReader(fresh) as reader:
                for alarm in alarms(reader):
                    run.store.note("alarm", alarm.body())
                steps = reader.steps
        if folder.exists():
            folder.rmdir()
        fresh.rename(folder)
    finally:
        rmtree(fresh, ignore_errors=True)
    return {"run": str(folder), "format": format, "rollouts": run.rollouts, "steps": steps}


def followed(
    source: Path,
    folder: Path,
    format: str,
    correct: str,
    options: Options,
    stop: Stop,
    stored: Callable[[int], None] | None,
) -> dict[str, Any]:
    """Import a log while it is written, until `stop` is set. A step is stored when a rollout of a later one was read.

    What is not complete waits: a line without its end, a Parquet file without its footer, a source that does not exist.
    At the end the newest step is stored as it is. An error keeps the steps that were stored.

    Args: stored: gets the number of each step that was stored before the end.
    Raises: as `imported`; ConfigError E072 for logs of Inspect. Without a stored rollout, no folder remains.
    """
    format = format or recognised(source)
    how, options, newest = require_format(format), replace(options, positions={}), -1
    if format == "inspect":
        raise ConfigError(
            "E072", "logs of Inspect cannot be followed", where="--follow",
            why="Inspect completes a log when its evaluation ends", fix="import them without --follow",
        )  # fmt: skip
    require_free(folder)
    run = ImportedRun(folder, format=format, correct=correct, facts={"followed": True})
    try:
        with run:
            steps, last = Steps(run), False
            while not last:
                last = stop.asked  # Asked first, so that what was written before the end is read.
                for each in unread(how, source, options):
                    steps.add(each)
                    if stored and newest not in (-1, steps.step):
                        stored(newest)
                    newest = steps.step
                if not last:
                    time.sleep(SECONDS)
            steps.end()
            if not run.rollouts:
                raise ConfigError("E065", "the log holds no rollouts", where=str(source), fix="check --format")
            run.store.note("followed", {"files": digests(source)})
            with RunReader(folder) as reader:
                for alarm in alarms(reader):
                    run.store.note("alarm", alarm.body())
                number = reader.steps
    finally:
        if not run.rollouts:
            rmtree(folder, ignore_errors=True)
    return {"run": str(folder), "format": format, "rollouts": run.rollouts, "steps": number}


def unread(how: Format, source: Path, options: Options) -> Iterator[Foreign]:
    """The rollouts that were written since the last time; none while there is no file."""
    try:
        yield from how.read(source, options)
    except ConfigError as error:
        if error.code != "E063":
            raise


def recognised(source: Path) -> str:
    """The format of a file or folder. Raises: ConfigError E066 if its files have no name that tells."""
    for pattern, format in PATTERNS.items():
        if source.match(pattern) or (source.is_dir() and next(source.rglob(pattern), None) is not None):
            return format
    raise ConfigError(
        "E066", "the names of the files do not tell their format", where=str(source),
        fix=f"gnomon import {shlex.quote(str(source))} RUN --format jsonl prompt=FIELD reply=FIELD reward=FIELD",
    )  # fmt: skip
