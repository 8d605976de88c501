"""Attempts: records that a run discarded. They are kept beside its chain, and can be verified like the chain.

A run discards records in two cases: a resumed run differs from what it recorded, and is allowed to; or a step fails,
and its rollouts show why. An attempt is linked to the record before its first one, so it can be hashed again.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from gnomon.store.journal import faults
from gnomon.store.layout import COLUMNS, Record, is_rollout, link, pack, unpack

__all__ = [
    "CREDIT",
    "SENTENCES",
    "Attempt",
    "Source",
    "attempts",
    "fault_of",
    "give_up",
    "known_head",
    "rows_of",
    "set_aside",
    "source",
]

TABLES = (
    """CREATE TABLE IF NOT EXISTS attempts (
    attempt INTEGER PRIMARY KEY, at REAL NOT NULL, failed INTEGER NOT NULL, seq INTEGER NOT NULL, step INTEGER,
    previous BLOB NOT NULL, head BLOB NOT NULL, records INTEGER NOT NULL, why TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS given_up (
    attempt INTEGER NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL, step INTEGER, task INTEGER, sample INTEGER,
    packed INTEGER NOT NULL, body BLOB NOT NULL, hash BLOB NOT NULL,
    reward REAL, status TEXT, tokens INTEGER, PRIMARY KEY (attempt, seq))""",
)
"""Created when a run first discards records. Run folders without attempts do not have these tables."""
NAMES = "attempt, at, failed, seq, step, previous, head, records, why"


class Source(StrEnum):
    """The cause of a difference between a record and the one that it repeats."""

    START = "start"
    """The run does not begin with the same recipe, policy, reference or environment."""
    JUDGE = "judge"
    """The same reply got another verdict."""
    ENVIRONMENT = "environment"
    """The environment made another task, or gave another message."""
    POLICY = "policy"
    """The policy sampled other tokens, or the same tokens with other log-probabilities."""
    LEARNER = "learner"
    """The same rollouts gave other metrics."""


SENTENCES = {
    Source.START: "the recipe, the policy, its reference or the environment has changed since the run began",
    Source.JUDGE: "the verifier gave another verdict on the same reply",
    Source.ENVIRONMENT: "the environment gave another task or observation",
    Source.POLICY: "the policy sampled other tokens or log-probabilities",
    Source.LEARNER: "the same rollouts gave other advantages or metrics",
}
"""Each source as a sentence for a user."""
CREDIT = {"advantage", "advantages", "proximal_logp"}
"""Keys of a rollout's record that follow from other rollouts and from the learner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Discarded records of a run."""

    number: int
    """Counted from 1."""
    at: float
    """When they were discarded, in Unix seconds."""
    failed: bool
    """Whether they belong to a failed step; else the run continued with other records in their place."""
    seq: int
    """Position of the first one in the chain at that time."""
    step: int | None
    """Step of the first one."""
    previous: str
    """Hash of the record before the first one."""
    head: str
    """Hash of the last one."""
    records: int
    why: str


def source(pairs: Sequence[tuple[Record, Record]]) -> tuple[Source, Record, Record]:
    """The cause of a difference between a step and the one that it repeats, with an old and a new record that differ.

    All rollouts of a step are sampled with the same weights. If any completion differs, the policy is the source;
    otherwise the environment or its verifier. Advantages and metrics depend on these.

    Args: pairs: the old and the new records of the step, from the first that differ.
    """
    differing: dict[Source, tuple[Record, Record]] = {}
    for old, new in pairs:
        if (old.kind, old.step, old.task, old.sample) != (new.kind, new.step, new.task, new.sample):
            break
        if (kind := _source(old, new)) is not None:
            differing.setdefault(kind, (old, new))
    order = (Source.START, Source.POLICY, Source.ENVIRONMENT, Source.JUDGE, Source.LEARNER)
    kind = next((each for each in order if each in differing), Source.POLICY)
    return kind, *differing.get(kind, pairs[0])


def _source(old: Record, new: Record) -> Source | None:
    """The cause for one record; None if both are equal."""
    keys = {key for key in old.body.keys() | new.body.keys() if old.body.get(key) != new.body.get(key)}
    if not keys:
        return None
    if old.kind == "genesis":
        return Source.START
    if old.kind == "task":
        return Source.POLICY if keys <= {"prompt_ids", "origins"} else Source.ENVIRONMENT
    if not is_rollout(old.kind) or keys <= CREDIT:
        return Source.LEARNER
    for then, now in zip(old.body.get("turns") or (), new.body.get("turns") or (), strict=False):
        if then.get("messages") != now.get("messages"):
            return Source.ENVIRONMENT
        if then != now:
            return Source.POLICY
    return Source.POLICY if keys & {"token_ids", "logprobs", "reply", "version"} else Source.JUDGE


def attempts(db: sqlite3.Connection, folder: Path) -> list[Attempt]:
    """All attempts of a run, the first one first."""
    with faults(folder):
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'attempts'").fetchone():
            return []
        rows = db.execute(f"SELECT {NAMES} FROM attempts ORDER BY attempt").fetchall()
    return [
        Attempt(
            number=number, at=at, failed=bool(failed), seq=seq, step=step,
            previous=previous.hex(), head=head.hex(), records=records, why=why,
        )
        for number, at, failed, seq, step, previous, head, records, why in rows
    ]  # fmt: skip


def rows_of(db: sqlite3.Connection, folder: Path, number: int, **where: Any) -> Iterator[tuple[Any, ...]]:
    """The stored rows of an attempt that match every named column, in order."""
    filters = {name: value for name, value in where.items() if value is not None}
    condition = "".join(f" AND {name} = ?" for name in filters)
    with faults(folder):
        yield from db.execute(
            f"SELECT {COLUMNS} FROM given_up WHERE attempt = ?{condition} ORDER BY seq", (number, *filters.values())
        ).fetchall()


def give_up(db: sqlite3.Connection, seq: int, previous: bytes, why: str) -> None:
    """Move the chain from `seq` on to a new attempt, inside the caller's transaction."""
    number = _open(db)
    db.execute(
        f"INSERT INTO given_up (attempt, {COLUMNS}) SELECT ?, {COLUMNS} FROM records WHERE seq >= ?", (number, seq)
    )
    db.execute("DELETE FROM records WHERE seq >= ?", (seq,))
    _close(db, number, seq, previous, why, failed=False)


def set_aside(db: sqlite3.Connection, seq: int, previous: bytes, records: Sequence[Record], why: str) -> None:
    """Store records that are not in the chain as an attempt, inside the caller's transaction.

    An attempt that is already stored is not stored again.
    """
    rows, head = [], previous
    for position, record in enumerate(records, start=seq):
        rows.append(pack(position, head, record))
        head = rows[-1][7]
    number = _open(db)
    if not rows or db.execute("SELECT 1 FROM attempts WHERE head = ?", (head,)).fetchone():
        return
    marks = ", ?" * len(rows[0])
    db.executemany(f"INSERT INTO given_up (attempt, {COLUMNS}) VALUES ({number}{marks})", rows)
    _close(db, number, seq, previous, why, failed=True)


def _open(db: sqlite3.Connection) -> int:
    for table in TABLES:
        db.execute(table)
    return int(db.execute("SELECT coalesce(max(attempt), 0) + 1 FROM attempts").fetchone()[0])


def _close(db: sqlite3.Connection, number: int, seq: int, previous: bytes, why: str, *, failed: bool) -> None:
    rows = db.execute("SELECT hash, step FROM given_up WHERE attempt = ? ORDER BY seq", (number,)).fetchall()
    facts = (number, time.time(), int(failed), seq, rows[0][1], previous, rows[-1][0], len(rows), why)
    db.execute(f"INSERT INTO attempts ({NAMES}) VALUES (?{', ?' * (len(facts) - 1)})", facts)


def known_head(db: sqlite3.Connection, folder: Path, seq: int, head: bytes) -> bool:
    """Whether a record at `seq` with this hash is in the chain or in an attempt."""
    with faults(folder):
        for table in ("records", "given_up"):
            if db.execute(f"SELECT 1 FROM {table} WHERE seq = ? AND hash = ?", (seq, head)).fetchone():
                return True
    return False


def fault_of(db: sqlite3.Connection, folder: Path, attempt: Attempt) -> str:
    """Why an attempt does not verify; empty if its records are unchanged."""
    head, count = bytes.fromhex(attempt.previous), 0
    if attempt.seq and not known_head(db, folder, attempt.seq - 1, head):
        return "the record before its first one is not in the run"
    for row in rows_of(db, folder, attempt.number):
        if row[0] != attempt.seq + count:
            return f"record {attempt.seq + count} is missing"
        record, body = unpack(row)
        if link(head, record, body) != row[7]:
            return f"record {row[0]} ({record.place}) does not match its hash"
        head, count = row[7], count + 1
    if count != attempt.records or head.hex() != attempt.head:
        return f"it has {count} records instead of {attempt.records}"
    return ""
