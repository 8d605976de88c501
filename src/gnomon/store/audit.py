"""Verify a whole run: re-hash every record and every checkpoint file."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from gnomon.errors import RunError
from gnomon.store.checkpoints import checkpoint_folders, examine
from gnomon.store.journal import damage_error, digest
from gnomon.store.layout import MANIFEST, PREDICTION, RECIPE, ROOT, RunStatus, glance, link, unpack
from gnomon.store.reader import RunReader

__all__ = ["VerifyReport", "verify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """The result of verifying a run folder. Falsy if anything in it has changed."""

    folder: Path
    records: int
    """Number of intact records, from the first one on."""
    fingerprint: str
    """Head of the chain of these records."""
    checkpoints: tuple[int, ...]
    """Steps with an intact checkpoint, newest first."""
    attempts: int
    """Number of attempts."""
    problems: tuple[RunError, ...]
    """All faults, each E405. The first bad record comes first."""

    def __bool__(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        steps = ", ".join(map(str, self.checkpoints)) or "none"
        good = f"{self.folder}: {self.records} records chain to {self.fingerprint[:16]}; good checkpoints: {steps}"
        if self.attempts:
            good += f"; attempts: {self.attempts}"
        return "\n".join([good, *map(str, self.problems)])


def verify(folder: Path | str) -> VerifyReport:
    """Re-hash a run: recipe, manifest, prediction, chain, attempts, indexes, checkpoints. Changes nothing.

    Raises: RunError E404 if there is no run, E406 if it has a newer format.
    """
    with RunReader(folder) as reader, reader.snapshot():
        problems = _texts(reader)
        count, fingerprint, bad = _chain(reader)
        problems += bad or [
            *_prediction(reader),
            *_indexes(reader),
            *_attempts(reader),
            *_ending(reader, count, fingerprint),
        ]
        good = []
        for path in checkpoint_folders(reader.folder):
            why = examine(path, reader.uuid, reader.head)
            if not why:
                good.append(int(path.name))
            elif path.exists():  # a live run may have deleted it meanwhile
                problems.append(_bad(reader, f"the checkpoint of step {int(path.name)}", why))
        problems += _checkpoints(reader)
        return VerifyReport(
            folder=reader.folder,
            records=count,
            fingerprint=fingerprint,
            checkpoints=tuple(good),
            attempts=len(reader.attempts),
            problems=tuple(problems),
        )


def _texts(reader: RunReader) -> list[RunError]:
    faults = []
    for name in (RECIPE, MANIFEST):
        path = reader.folder / name
        if not path.is_file():
            faults.append(_bad(reader, name, "it is missing"))
        elif sha256(path.read_bytes()).hexdigest() != reader.recorded_hash(name):
            faults.append(_bad(reader, name, "it differs from the one that the run was started with"))
    return faults


def _prediction(reader: RunReader) -> list[RunError]:
    """A prediction that is not the one whose SHA-256 the first record holds."""
    path, registered = reader.folder / PREDICTION, reader.prediction
    there = digest(path) if path.is_file() else ""
    if there == registered:
        return []
    why_registered = f"the first record holds the SHA-256 {registered}"
    if not registered:
        what, why = "was added after the run began", "the first record holds no prediction"
        fix = f"rm {shlex.quote(str(path))}"
    elif not there:
        what, why, fix = "is missing", why_registered, "restore the file that was registered"
    else:
        what, why, fix = "was changed after the run began", why_registered, "restore the file that was registered"
    return [RunError("E405", f"{PREDICTION} {what}", where=str(reader.folder), why=why, fix=fix)]


def _chain(reader: RunReader) -> tuple[int, str, list[RunError]]:
    """Number of good records, their head, and the first bad one."""
    head, count = ROOT, 0
    try:
        for row in reader.rows():
            what = f"record {row[0]} ({row[1]})"
            if row[0] != count:
                return count, head.hex(), [_bad(reader, f"record {count}", "it is missing")]
            record, body = unpack(row)
            what = f"record {row[0]} ({record.place})"
            if link(head, record, body) != row[7]:
                return count, head.hex(), [_bad(reader, what, "it does not match its hash")]
            if glance(record) != row[8:]:
                return count, head.hex(), [_bad(reader, what, "reward, status or tokens beside it are not its own")]
            head, count = row[7], count + 1
    except RunError as error:
        return count, head.hex(), [_bad(reader, f"record {count}", f"{error.what}: {error.why}")]
    return count, head.hex(), []


def _indexes(reader: RunReader) -> list[RunError]:
    problem = reader.structure()
    return [damage_error(reader.folder, f"the database is inconsistent: {problem}")] if problem else []


def _attempts(reader: RunReader) -> list[RunError]:
    """Faults of attempts: records that are missing or have changed."""
    faults: list[RunError] = []
    for number, attempt in enumerate(reader.attempts, start=1):
        if attempt.number != number:
            return [*faults, _bad(reader, f"attempt {number}", "it is missing")]
        try:
            why = reader.damage(attempt)
        except RunError as error:
            why = f"{error.what}: {error.why}"
        if why:
            faults.append(_bad(reader, f"attempt {number}", why))
    return faults


def _ending(reader: RunReader, count: int, fingerprint: str) -> list[RunError]:
    """Records and attempts missing since the run finished. An unfinished run may end at any record."""
    if reader.status is not RunStatus.FINISHED:
        return []
    end = reader.end
    if not end:
        return [_bad(reader, "the end of the run", "its inventory is missing")]
    faults = []
    if (count, fingerprint) != (end["records"], end["head"]):
        why = f"the run finished with {end['records']} records, and {count} are left"
        faults.append(_bad(reader, "the end of the run", why))
    if [attempt.head for attempt in reader.attempts] != end["attempts"]:
        why = f"the run finished with {len(end['attempts'])} attempts, and {len(reader.attempts)} are left"
        faults.append(_bad(reader, "the list of attempts", why))
    return faults


def _checkpoints(reader: RunReader) -> list[RunError]:
    """Missing checkpoints: all of a finished run are required, and the last one of any run."""
    there = {int(path.name) for path in checkpoint_folders(reader.folder)}
    due = set(reader.end.get("checkpoints", ())) if reader.status is RunStatus.FINISHED else set[int]()
    last = None
    for event in reader.events():
        if event["kind"] == "checkpoint":
            last = event["step"]
        elif event["kind"] == "quarantine" and event["step"] == last:
            last = None
    if last is not None and max(there, default=-1) < last:
        due.add(last)
    return [_bad(reader, f"the checkpoint of step {step}", "it is missing") for step in sorted(due - there)]


def _bad(reader: RunReader, what: str, why: str) -> RunError:
    run = shlex.quote(str(reader.folder))
    fix = f"continue from the last valid checkpoint: gnomon resume {run}"
    if _ended(reader):  # A finished run has nothing to resume.
        fix = f"restore it from a copy, or repeat the run: gnomon train {run}/{RECIPE} run=OTHER"
    return RunError("E405", f"{what} is damaged", where=str(reader.folder), why=why, fix=fix)


def _ended(reader: RunReader) -> bool:
    try:
        return reader.complete
    except RunError:
        return False
