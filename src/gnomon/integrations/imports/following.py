"""Import a log while the other trainer writes it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from shutil import rmtree

from gnomon.errors import ConfigError
from gnomon.integrations.imports.files import Options
from gnomon.integrations.imports.importing import Format, Steps, digests, require_format
from gnomon.integrations.imports.rollout import Foreign
from gnomon.integrations.imports.run import ImportedRun
from gnomon.store import RunReader, require_free

__all__ = ["follow"]

SECONDS = 0.5
"""Between two looks at the log."""


def follow(
    source: Path,
    folder: Path,
    format: str,
    correct: str,
    options: Options,
    stop: Callable[[], bool],
    on_step: Callable[[int], None] = lambda step: None,
    ended: Callable[[ImportedRun], None] = lambda run: None,
) -> dict[str, int]:
    """Write the rollouts of a log into a run, until `stop()` is true. Returns: the numbers of `rollouts` and `steps`.

    A step is stored when a rollout of a later one was read. What is not complete waits: a line without its end, a
    Parquet file without its footer, a source that does not exist. At the end the newest step is stored as it is. An
    error keeps the steps that were stored; without a stored step, no folder remains.

    Args:
        on_step: gets the number of each step that was stored before the end.
        ended: gets the run when its last step is stored.
    Raises: as `import_rollouts` and `ImportedRun`; RunError E401 where the folder holds anything; ConfigError E072 for
        logs of Inspect.
    """
    how, options, newest = require_format(format), replace(options, positions={}), -1
    if format == "inspect":
        raise ConfigError(
            "E072", "logs of Inspect cannot be followed", where="--follow",
            why="Inspect completes a log when its evaluation ends", fix="import them without --follow",
        )  # fmt: skip
    require_free(folder, fix=f"gnomon import {shlex.quote(str(source))} OTHER")
    run = ImportedRun(folder, format=format, correct=correct, facts={"followed": True})
    try:
        with run:
            steps, last = Steps(run), False
            while not last:
                last = stop()  # Asked first, so that what was written before the end is read.
                for each in unread(how, source, options):
                    steps.add(each)
                    if newest not in (-1, steps.step):
                        on_step(newest)
                    newest = steps.step
                if not last:
                    time.sleep(SECONDS)
            steps.end()
            if not run.rollouts:
                raise ConfigError("E065", "the log holds no rollouts", where=str(source), fix="check --format")
            run.store.note("followed", {"files": digests(source)})
            ended(run)
            with RunReader(folder) as reader:
                return {"rollouts": run.rollouts, "steps": reader.steps}
    finally:
        if not run.rollouts:
            rmtree(folder, ignore_errors=True)


def unread(how: Format, source: Path, options: Options) -> Iterator[Foreign]:
    """The rollouts that were written since the last time; none while there is no file."""
    try:
        yield from how.read(source, options)
    except ConfigError as error:
        if error.code != "E063":
            raise
