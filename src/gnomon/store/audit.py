"""Re-hashing a whole run: every record in its place, every byte of every checkpoint."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from gnomon.errors import RunError
from gnomon.store.checkpoints import examine, stored
from gnomon.store.journal import damaged
from gnomon.store.layout import MANIFEST, RECIPE, ROOT, glance, link, unpack
from gnomon.store.reader import RunReader

__all__ = ["VerifyReport", "verify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """What a run folder proved to be. Falsy when something in it is not as it was written."""

    folder: Path
    records: int
    """Number of records that chain, from the first one on."""
    fingerprint: str
    """Head of the chain of those."""
    checkpoints: tuple[int, ...]
    """Steps whose checkpoint verified, newest first."""
    problems: tuple[RunError, ...]
    """Everything found, each E405; the first bad record before anything else of the chain."""

    def __bool__(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        steps = ", ".join(map(str, self.checkpoints)) or "none"
        good = f"{self.folder}: {self.records} records chain to {self.fingerprint[:16]}; good checkpoints: {steps}"
        return "\n".join([good, *map(str, self.problems)])


def verify(folder: Path | str) -> VerifyReport:
    """Re-hash a run: recipe and manifest, the chain, the indexes, the checkpoints. Changes nothing.

    Raises: RunError E404 when there is no run, E406 when it has a newer format.
    """
    with RunReader(folder) as reader:
        problems = _texts(reader)
        count, fingerprint, bad = _chain(reader)
        problems += bad or _indexes(reader)
        good = []
        for path in stored(reader.folder):
            why = examine(path, reader.uuid, reader.head)
            if not why:
                good.append(int(path.name))
            elif path.exists():  # a live run may have retired it meanwhile
                problems.append(_bad(reader, f"the checkpoint of step {int(path.name)}", why))
        return VerifyReport(
            folder=reader.folder,
            records=count,
            fingerprint=fingerprint,
            checkpoints=tuple(good),
            problems=tuple(problems),
        )


def _texts(reader: RunReader) -> list[RunError]:
    found = []
    for name in (RECIPE, MANIFEST):
        path = reader.folder / name
        if not path.is_file():
            found.append(_bad(reader, name, "it is missing"))
        elif sha256(path.read_bytes()).hexdigest() != reader.recorded(name):
            found.append(_bad(reader, name, "it is not what the run was started with"))
    return found


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
    found = reader.structure()
    return [damaged(reader.folder, f"the database is inconsistent: {found}")] if found else []


def _bad(reader: RunReader, what: str, why: str) -> RunError:
    fix = f"go on from what is good: gnomon resume {shlex.quote(str(reader.folder))}"
    return RunError("E405", f"{what} is damaged", where=str(reader.folder), why=why, fix=fix)
