"""The side index of a run: its rollouts at a glance and the words of their texts, so that a search reads few records.

It lies in the user's cache folder under the run's uuid and is fed from the journal. Nothing is lost with it: it can be
deleted at any time, and it is rebuilt where the chain is another one than the one that fed it.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from gnomon.errors import GnomonError
from gnomon.store import Record, RunReader
from gnomon.store.codec import text_of
from gnomon.store.layout import is_rollout, of_set, set_of, unpack

__all__ = ["Index", "Progress", "fold", "split_of", "texts_of"]

VERSION = 2
"""Of the tables. An index of another version is rebuilt."""
BATCH = 1000
"""Records that are fed in one transaction."""
LONGEST = 100_000
"""Characters of a text whose words are in the index, from its beginning."""
UNUSED = 60 * 86400
"""Seconds after which an index that nobody opened is deleted."""
TABLES = f"""
PRAGMA user_version = {VERSION};
CREATE TABLE fed (records INTEGER NOT NULL, hash TEXT NOT NULL);
INSERT INTO fed VALUES (0, '');
CREATE TABLE groups (
    seq INTEGER PRIMARY KEY, split TEXT NOT NULL, step INTEGER, task INTEGER,
    size INTEGER NOT NULL DEFAULT 0, correct INTEGER NOT NULL DEFAULT 0, reward REAL NOT NULL DEFAULT 0);
CREATE INDEX groups_by_step ON groups (step);
CREATE INDEX groups_by_task ON groups (task, split);
CREATE TABLE rollouts (
    seq INTEGER PRIMARY KEY, asked INTEGER NOT NULL, split TEXT NOT NULL, step INTEGER, task INTEGER, sample INTEGER,
    player INTEGER NOT NULL, reward REAL, status TEXT, finish TEXT, tokens INTEGER, advantage REAL);
CREATE TABLE ids (id TEXT, task INTEGER, split TEXT, PRIMARY KEY (id, task, split)) WITHOUT ROWID;
CREATE TABLE seen (name TEXT, value, count INTEGER NOT NULL, PRIMARY KEY (name, value)) WITHOUT ROWID;
"""
TEXTS = "CREATE VIRTUAL TABLE texts USING fts5 (text, content='', detail=none, tokenize='trigram case_sensitive 1')"
"""A row has the number of its record: of a rollout for what was written in it, of a `task` record for the prompt."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an index is: so many of the run's records are in it."""

    records: int
    total: int

    @property
    def complete(self) -> bool:
        return self.records >= self.total


class Index:
    """The side index of one run folder. Its methods may be called from several threads, and several processes.

    Args: cache: the folder of all indexes; the user's cache folder if not given.
    """

    def __init__(self, folder: Path, cache: Path | None = None) -> None:
        self.folder = folder
        with RunReader(folder) as reader:
            name = sha256(reader.uuid.encode()).hexdigest()[:32]
        self.path = (cache or cache_folder()) / f"{name}.db"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        forget_unused(self.path.parent)
        connect(self.path).close()
        self.path.touch()
        self._lock, self._feeding = Lock(), Thread()

    def follow(self, seconds: float) -> Progress:
        """Feed the index with what the run wrote since. Waits at most so long; the rest is fed in the background."""
        with self._lock:
            if not self._feeding.is_alive():
                self._feeding = Thread(target=self._feed, daemon=True)
                self._feeding.start()
            feeding = self._feeding
        feeding.join(seconds)
        with RunReader(self.folder) as reader:
            total = reader.length
        with self.reading() as db:
            return Progress(db.execute("SELECT records FROM fed").fetchone()[0], total)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for queries, which sees the index at one moment."""
        db = connect(self.path)
        try:
            db.execute("BEGIN")
            yield db
        finally:
            db.close()

    def _feed(self) -> None:
        """Bring the index up to the end of the chain, a batch at a time."""
        db = connect(self.path)
        try:
            with RunReader(self.folder) as reader:
                while feed(db, reader):
                    pass
        except (GnomonError, sqlite3.Error):  # The page says how far it came, and the next one tries again.
            return
        finally:
            db.close()


def cache_folder() -> Path:
    """Where indexes lie; a new temporary folder for a user whose cache folder cannot be written."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gnomon" / "runs"
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except (OSError, RuntimeError):  # RuntimeError: the user has no home folder.
        pass
    return Path(tempfile.mkdtemp(prefix="gnomon-"))


def forget_unused(cache: Path) -> None:
    """Delete the indexes that nobody has opened for long."""
    for path in cache.glob("*.db"):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - UNUSED:
                delete(path)


def delete(path: Path) -> None:
    """Delete an index, and what SQLite keeps beside it."""
    for end in ("", "-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)


def connect(path: Path) -> sqlite3.Connection:
    """The database at a path with its tables; what is there is replaced where it is something else."""
    db = sqlite3.connect(path, isolation_level=None, timeout=10.0, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = OFF")  # It can be rebuilt.
        if version(db) != VERSION:
            db.execute("BEGIN IMMEDIATE")
            if version(db) != VERSION:  # Nobody else was first.
                rebuild(db)
            db.execute("COMMIT")
    except sqlite3.DatabaseError as error:
        db.close()
        if error.sqlite_errorcode not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise
        delete(path)
        return connect(path)
    return db


def version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def rebuild(db: sqlite3.Connection) -> None:
    """Empty tables, in the place of whatever there was, inside the caller's transaction."""
    for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        if not name.startswith(("sqlite_", "texts_")):
            db.execute(f"DROP TABLE {name}")
    for statement in TABLES.split(";"):
        db.execute(statement)
    with suppress(sqlite3.OperationalError):  # SQLite was built without FTS5: a search reads the texts themselves.
        db.execute(TEXTS)


def feed(db: sqlite3.Connection, reader: RunReader) -> bool:
    """Feed one batch of records. Returns: whether there was any."""
    db.execute("BEGIN IMMEDIATE")
    fed, last = db.execute("SELECT records, hash FROM fed").fetchone()
    if fed and reader.head(fed) != last:
        rebuild(db)
        db.execute("COMMIT")
        return True
    records = [unpack(row)[0] for row in islice(reader.rows(fed), BATCH)]
    if records:
        store(db, records)
        db.execute("UPDATE fed SET records = ?, hash = ?", (records[-1].seq + 1, records[-1].hash))
    db.execute("COMMIT")
    return bool(records)


def store(db: sqlite3.Connection, records: list[Record]) -> None:
    """Add records to the tables."""
    task_seq = db.execute("SELECT max(seq) FROM groups").fetchone()[0]
    groups, rollouts, ids, texts = [], [], [], []
    counts: Counter[tuple[str, Any]] = Counter()
    for record in records:
        body = record.body
        if record.kind == "task" and is_rollout(body.get("of", "")):
            task_seq, split = record.seq, split_of(body["of"])
            groups.append((record.seq, split, record.step, record.task))
            ids.append((storable(str(body["id"])), record.task, split))
        elif is_rollout(record.kind) and task_seq is not None:
            row = glance(record, task_seq)
            rollouts.append(row)
            counts.update(
                (name, row[column]) for name, column in (("split", 2), ("player", 6), ("status", 8), ("finish", 9))
            )
        else:
            continue
        texts.append((record.seq, "\n".join(fold(text[:LONGEST]) for text in texts_of(record))))
    db.executemany("INSERT INTO groups (seq, split, step, task) VALUES (?, ?, ?, ?)", groups)
    db.executemany(f"INSERT INTO rollouts VALUES ({', '.join('?' * 12)})", rollouts)
    db.executemany(
        "UPDATE groups SET size = size + 1, correct = correct + ?, reward = reward + ? WHERE seq = ?",
        [(row[8] == "correct", row[7] or 0.0, row[1]) for row in rollouts],
    )
    db.executemany("INSERT OR IGNORE INTO ids VALUES (?, ?, ?)", ids)
    db.executemany(
        "INSERT INTO seen VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
        [(*key, count) for key, count in counts.items()],
    )
    if has_texts(db):
        db.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", texts)


def split_of(kind: str) -> str:
    """Where the task of a rollout is from: `train`, `eval`, or `eval.NAME` of an evaluation set."""
    return "train" if kind == "rollout" else of_set("eval", set_of(kind))


def has_texts(db: sqlite3.Connection) -> bool:
    """Whether the words of the texts are in the index."""
    return bool(db.execute("SELECT 1 FROM sqlite_master WHERE name = 'texts'").fetchone())


def glance(record: Record, task_seq: int) -> tuple[Any, ...]:
    """A row of `rollouts`."""
    body = record.body
    values = (body.get("reward"), body.get("status"), body.get("finish"), body.get("tokens"), body.get("advantage"))
    player = body.get("player", 0)
    identity = (record.step, record.task, record.sample)
    return (record.seq, task_seq, split_of(record.kind), *identity, player, *map(storable, values))


def texts_of(record: Record) -> Iterator[str]:
    """What was written in a rollout, by the policy and by the environment; of a `task` record the prompt."""
    body: Mapping[str, Any] = record.body
    if is_rollout(record.kind):
        yield str(body["reply"])
    for turn in (body, *body.get("turns", ())):
        yield from map(text_of, turn.get("messages") or ())


def fold(text: str) -> str:
    """A text as it is compared: in lower case, without what SQLite cannot hold."""
    return str(storable(text.lower())).replace("\0", " ")


def storable(value: Any) -> Any:
    """Text without lone surrogates, which have no UTF-8; any other value as it is."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
