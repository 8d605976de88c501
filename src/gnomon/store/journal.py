"""The database of a run: open it, read rows, and turn its failures into errors for the user."""

from __future__ import annotations

import errno
import os
import shlex
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from gnomon.errors import GnomonError, ResourceError, RunError, is_full, sibling
from gnomon.store.failpoint import failpoint
from gnomon.store.layout import APPLICATION, COLUMNS, FORMAT, JOURNAL, ROOT, SCHEMA, Record, link, pack, unpack

__all__ = [
    "INSERT",
    "build",
    "damage_error",
    "digest",
    "faults",
    "find",
    "head_before",
    "meta",
    "open_reading",
    "open_writing",
    "require_there",
    "rows",
    "sync",
    "tail",
    "transaction",
    "write_durably",
]

REFUSED = {errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.EEXIST, errno.ENOTDIR}
PAGE = 256
END = 1 << 62
INSERT = f"INSERT INTO records ({COLUMNS}) VALUES ({','.join('?' * len(COLUMNS.split(',')))})"


def build(folder: Path, genesis: Record, facts: Mapping[str, str]) -> None:
    """Create a journal with its first record, atomically."""
    fresh = folder / f"{JOURNAL}.new"
    for leftover in folder.glob(f"{JOURNAL}.new*"):
        leftover.unlink()
    db = sqlite3.connect(fresh, isolation_level=None)
    try:
        db.executescript(SCHEMA)
        db.execute("BEGIN")
        db.executemany("INSERT INTO meta VALUES (?, ?)", facts.items())
        db.execute(INSERT, pack(0, ROOT, genesis))
        db.execute("COMMIT")
        db.execute("PRAGMA journal_mode = WAL")
    finally:
        db.close()
    sync(fresh)
    failpoint("create:before-journal")
    os.rename(fresh, folder / JOURNAL)
    failpoint("create:after-journal")
    sync(folder)


def open_writing(folder: Path) -> sqlite3.Connection:
    """Open the journal for its one writer. Every commit is on the disk when it returns."""
    uri = f"{find(folder).as_uri()}?mode=rw"
    # In a notebook, another thread runs the steps than opened the run, but never two at a time.
    db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=10.0, check_same_thread=False)
    with _closed_on_error(db), faults(folder):
        _check_header(db, folder)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
    return db


def open_reading(folder: Path) -> sqlite3.Connection:
    """Open the journal for a reader. A reader neither blocks the writer nor changes the file."""
    uri = f"{find(folder).as_uri()}?mode=ro"
    try:
        return _reader(uri, folder)
    except ResourceError:
        # In a read-only folder SQLite cannot create its shared index. Without a log file there is no writer.
        if (folder / f"{JOURNAL}-wal").exists():
            raise
        return _reader(f"{uri}&immutable=1", folder)


def _reader(uri: str, folder: Path) -> sqlite3.Connection:
    with faults(folder):
        db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=10.0, check_same_thread=False)
    with _closed_on_error(db), faults(folder):
        _check_header(db, folder)
    return db


def find(folder: Path) -> Path:
    """The path of a run's journal.

    Raises: RunError E404 if the folder contains no run.
    """
    path = (folder / JOURNAL).resolve()
    if not path.is_file():
        near = sibling(folder, lambda path: (path / JOURNAL).is_file())
        raise RunError(
            "E404",
            "the folder contains no run" if folder.is_dir() else "the folder does not exist",
            where=str(folder),
            why=f"a run folder contains {JOURNAL}",
            fix=f"{near} is a run folder" if near else "gnomon ls .   # lists the runs below this folder",
        )
    return path


def _check_header(db: sqlite3.Connection, folder: Path) -> None:
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        raise damage_error(folder, f"{JOURNAL} is not a gnomon journal")
    if version > FORMAT:
        raise RunError(
            "E406",
            f"the run has format {version}, and this gnomon knows formats up to {FORMAT}",
            where=str(folder),
            why="a newer gnomon wrote it; nothing was changed",
            fix="pip install --upgrade gnomon",
        )


def meta(db: sqlite3.Connection, name: str) -> str:
    """A fact about the run that is stored beside the chain; empty if unknown."""
    row = db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return str(row[0]) if row else ""


def rows(
    db: sqlite3.Connection, folder: Path, start: int = 0, stop: int = END, **where: Any
) -> Iterator[tuple[Any, ...]]:
    """The rows from `start` up to `stop` that match every named column, in order. Reads one page at a time."""
    filters = {name: value for name, value in where.items() if value is not None}
    condition = "".join(f" AND {term}" for term in terms(filters))
    query = f"SELECT {COLUMNS} FROM records WHERE seq >= ? AND seq < ?{condition} ORDER BY seq LIMIT {PAGE}"
    while True:
        with faults(folder):
            page = db.execute(query, (start, stop, *filters.values())).fetchall()
        yield from page
        if len(page) < PAGE:
            return
        start = page[-1][0] + 1


def terms(filters: Mapping[str, Any]) -> list[str]:
    """The conditions of a query for records, one per named column.

    The plus sign stops SQLite from using its index of kinds if a step or a task selects far fewer records.
    """
    narrow = "step" in filters or "task" in filters
    return [f"+{name} = ?" if name == "kind" and narrow else f"{name} = ?" for name in filters]


def tail(db: sqlite3.Connection, folder: Path, length: int) -> tuple[int, bytes]:
    """Re-hash the last `length` records. Returns: the number of records and the hash of the last one.

    Raises: RunError E405 if the hashes do not match.
    """
    with faults(folder):
        count, last = db.execute("SELECT count(*), max(seq) FROM records").fetchone()
    if count == 0 or last != count - 1:
        raise damage_error(folder, f"{count} records are numbered up to {last}")
    start = max(0, count - length)
    head = ROOT
    for row in rows(db, folder, max(0, start - 1)):
        if row[0] >= start:
            record, body = unpack(row)
            if link(head, record, body) != row[7]:
                raise damage_error(folder, f"record {record.seq} ({record.place}) does not match its hash")
        head = row[7]
    return count, head


def head_before(db: sqlite3.Connection, folder: Path, seq: int) -> bytes | None:
    """Head of the chain before position `seq`, None beyond its end."""
    if seq == 0:
        return ROOT
    with faults(folder):
        row = db.execute("SELECT hash FROM records WHERE seq = ?", (seq - 1,)).fetchone()
    return bytes(row[0]) if row else None


@contextmanager
def transaction(db: sqlite3.Connection, folder: Path) -> Iterator[None]:
    """A transaction: either all changes are stored or none. Raises: as `faults`."""
    require_there(folder)
    with faults(folder):
        db.execute("BEGIN IMMEDIATE")
        try:
            yield
            db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                if db.in_transaction:
                    db.execute("ROLLBACK")
            raise


@contextmanager
def faults(folder: Path) -> Iterator[None]:
    """Turn failures of the disk and the database into errors for the user.

    Raises: ResourceError E501 if the disk is full, E502 if it cannot be used; RunError E405 if the file is damaged,
    E412 if the folder is missing.
    """
    try:
        yield
    except GnomonError:
        raise
    except sqlite3.DatabaseError as error:
        if not folder.is_dir():
            raise _missing_error(folder) from error
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise damage_error(folder, f"{JOURNAL}: {error}") from error
        if "decode to UTF-8" in str(error):
            raise damage_error(folder, f"{JOURNAL}: text is not valid UTF-8") from error
        if code == sqlite3.SQLITE_FULL:
            raise _full(folder) from error
        if isinstance(error, sqlite3.OperationalError) and code != sqlite3.SQLITE_ERROR:
            raise _refusal(folder, error) from error
        raise
    except Exception as error:
        if isinstance(error, FileNotFoundError) and not (folder / JOURNAL).exists():
            raise _missing_error(folder) from error
        if is_full(error):
            raise _full(folder) from error
        if isinstance(error, OSError) and error.errno in REFUSED:
            raise _refusal(folder, error) from error
        raise


def damage_error(folder: Path, why: str) -> RunError:
    return RunError(
        "E405",
        "the run folder is damaged",
        where=str(folder),
        why=why,
        fix=f"gnomon verify {shlex.quote(str(folder))}   # lists what is intact",
    )


def require_there(folder: Path) -> None:
    """Raises: RunError E412 if the journal was deleted. SQLite would continue to write to the deleted file."""
    if not (folder / JOURNAL).exists():
        raise _missing_error(folder)


def _missing_error(folder: Path) -> RunError:
    return RunError(
        "E412",
        "the run folder was deleted or moved while it was in use",
        where=str(folder),
        why="its records are gone too",
        fix="if it was moved: gnomon resume NEW_FOLDER; if it was deleted: start the run again",
    )


def _full(folder: Path) -> ResourceError:
    path = shlex.quote(str(folder))
    return ResourceError(
        "E501",
        "the disk is full",
        where=str(folder),
        why="all earlier records are intact",
        fix=f"free disk space (df -h {path}), then: gnomon resume {path}",
    )


def _refusal(folder: Path, error: Exception) -> ResourceError:
    path = shlex.quote(str(folder))
    return ResourceError(
        "E502",
        "the disk cannot be read or written",
        where=str(folder),
        why=f"{error}; all earlier records are intact",
        fix=f"check the folder (ls -ld {path}; df -h {path}), then: gnomon resume {path}",
    )


def write_durably(path: Path, data: bytes) -> None:
    """Write a file and sync it, so that its bytes are on the disk when this returns."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Sync a file's bytes, or the entries of a folder, to the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def digest(path: Path) -> str:
    """SHA-256 of a file, read back from the disk."""
    total = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()


@contextmanager
def _closed_on_error(db: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        db.close()
        raise
