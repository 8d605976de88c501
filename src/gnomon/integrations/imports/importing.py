"""Read the log of another trainer into a run folder, once or while the trainer writes it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from shutil import rmtree

from gnomon.errors import ConfigError
from gnomon.integrations.imports import inspect_logs, plain, trl, verifiers, verl
from gnomon.integrations.imports.files import Options
from gnomon.integrations.imports.rollout import Foreign
from gnomon.integrations.imports.run import ImportedRun
from gnomon.store import RunReader, require_free

__all__ = ["FORMATS", "Format", "Steps", "follow", "import_rollouts", "require_format"]


@dataclass(frozen=True, slots=True)
class Format:
    """How a log is read."""

    read: Callable[[Path, Options], Iterator[Foreign]]
    by_step: bool
    """Whether the files hold one step after the other, so that one step at a time is in memory."""


FORMATS: Mapping[str, Format] = {
    "trl": Format(trl.read, True),
    "verl": Format(verl.read, True),
    "verifiers": Format(verifiers.read, False),
    "prime-rl": Format(verifiers.read, True),
    "inspect": Format(inspect_logs.read, True),
    "jsonl": Format(plain.read, False),
}


def require_format(name: str) -> Format:
    """Raises: ConfigError E066 for a format that cannot be read."""
    if name == "openrlhf":
        raise ConfigError(
            "E066", "OpenRLHF writes no log of its rollouts", where="--format openrlhf",
            why="its tables for trackers hold one sample per step",
            fix="write lines of JSON in the reward function (docs/other-trainers.md); import those with --format jsonl",
        )  # fmt: skip
    if name not in FORMATS:
        fix = f"--format {' or --format '.join(FORMATS)}"
        raise ConfigError("E066", f"{name!r} is not a format of rollouts", where="--format", fix=fix)
    return FORMATS[name]


def import_rollouts(source: Path, run: ImportedRun, format: str, options: Options) -> None:
    """Write the rollouts of a log into a run, step by step, trained on or held out.

    Raises: ConfigError E062 for a field that the log does not have, E063 for a source without files, E064 for a log
        that cannot be read, E065 for a log that holds no rollouts, E067 for steps that are not in order.
    """
    how = require_format(format)
    rollouts = how.read(source, options)
    steps = Steps(run)
    for each in rollouts if how.by_step else sorted(rollouts, key=attrgetter("step")):
        steps.add(each)
    steps.end()
    if not run.rollouts:
        raise ConfigError("E065", "the log holds no rollouts", where=str(source), fix="check --format and the path")


class Steps:
    """Gathers the rollouts of a step, and stores them when the next step begins."""

    def __init__(self, run: ImportedRun) -> None:
        self.run = run
        self.step = -1
        """The newest step, which may not be complete."""
        self._waiting: list[Foreign] = []

    def add(self, each: Foreign) -> None:
        """Raises: ConfigError E067 for a rollout of an earlier step than the newest."""
        if each.step < self.step:
            raise ConfigError(
                "E067", f"step {each.step} follows step {self.step}", where=each.source,
                why="the files of a log are read in the order of the numbers in their names",
                fix="import the folder of one training run, after its end and without --follow",
            )  # fmt: skip
        if each.step > self.step:
            self.end()
            self.step = each.step
        self._waiting.append(each)

    def end(self) -> None:
        """Store the newest step as it is."""
        training = [each for each in self._waiting if not each.held_out]
        if evaluation := [each for each in self._waiting if each.held_out]:
            self.run.evaluation(self.step, evaluation)
        if training:
            self.run.step(self.step, training)
        self._waiting = []


def digests(source: Path) -> dict[str, str]:
    """SHA-256 of the file, or of every file below a folder, by its path."""
    paths = [source] if source.is_file() else sorted(path for path in source.rglob("*") if path.is_file())
    return {str(path.relative_to(source.parent)): digest(path) for path in paths}


def digest(path: Path) -> str:
    total = sha256()
    with path.open("rb") as file:
        while block := file.read(2**20):
            total.update(block)
    return total.hexdigest()


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
