"""A search through all rollouts of a run, by text and by what a verdict and a record say of them."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from gnomon.store import Record, RunReader
from gnomon.viewer.index import fold, has_texts, texts_of

__all__ = ["Found", "Query", "search", "values_seen"]

MOST = 50
"""Rollouts on a page."""
SPAN = 20_000
"""Records that are filtered at once."""
AROUND = 80
"""Characters that are shown before and after a text that was searched."""
SECONDS = 0.06
"""After so long a search stops; the next page goes on from there."""
COLUMNS = (
    "seq",
    "asked",
    "split",
    "step",
    "task",
    "sample",
    "player",
    "reward",
    "status",
    "finish",
    "tokens",
    "advantage",
)
SPELLED = 60
"""Pieces of the text that the index is asked for; a longer text is compared with the records themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is searched: all that is given must hold. The fields are those of the page's address."""

    text: str = ""
    """In a reply, an observation or the prompt, in upper or lower case."""
    task: str = ""
    """Index or id."""
    split: str = ""
    status: str = ""
    finish: str = ""
    player: int | None = None
    first: int | None = None
    """The first step."""
    last: int | None = None
    low: float | None = None
    """The least reward."""
    high: float | None = None

    @classmethod
    def of(cls, address: Mapping[str, str]) -> Query:
        """The query in an address; what is not a number where one is needed counts as absent."""
        texts, numbers = ("text", "task", "split", "status", "finish"), ("player", "first", "last")
        supplied: dict[str, Any] = {name: address.get(name, "") for name in texts}
        supplied |= {name: whole(address.get(name, "")) for name in numbers}
        return cls(**supplied, low=real(address.get("low", "")), high=real(address.get("high", "")))

    @property
    def parameters(self) -> dict[str, str]:
        """The query as an address has it."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: str(value) for name, value in values.items() if value not in ("", None)}


def whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None


def real(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Found:
    """A page of a search."""

    rows: list[dict[str, Any]]
    after: int | None
    """Position from which the next page goes on; None where everything has been searched."""
    step: int | None
    """The step at which this page stops."""


def search(db: sqlite3.Connection, reader: RunReader, query: Query, after: int = -1, seconds: float = SECONDS) -> Found:
    """The next rollouts that match, in the order of the chain.

    Args: db: of the run's `Index`; after: position in the chain after which the search begins; seconds: after which
        it stops, even if it has found nothing yet.
    """
    until = time.perf_counter() + seconds
    rows: list[dict[str, Any]] = []
    condition, values = terms(db, query)
    asking = Asking(reader, query.text)
    low, high = bounds(db, query)
    at = begin = max(after, low)
    for start, stop in spans(db, query, at, high):
        for row in select(db, condition, values, max(start, at), min(stop, high)):
            at = row["seq"]
            if (excerpt := asking.excerpt(row)) is not None:
                rows.append({**row, "excerpt": excerpt})
            if len(rows) > MOST:
                return Found(rows[:MOST], rows[MOST - 1]["seq"], row["step"])
            if time.perf_counter() > until:
                return Found(rows, at, row["step"])
        at = max(at, min(stop, high))
        if at > begin and time.perf_counter() > until:
            return Found(rows, at, step_at(db, at))
    return Found(rows, None, None)


def values_seen(db: sqlite3.Connection) -> dict[str, dict[Any, int]]:
    """Of every field with few values, the values that rollouts have, and how many rollouts."""
    counts: dict[str, dict[Any, int]] = {"split": {}, "status": {}, "finish": {}, "player": {}}
    for name, value, count in db.execute("SELECT name, value, count FROM seen ORDER BY name, value"):
        counts[name][value] = count
    return counts


def bounds(db: sqlite3.Connection, query: Query) -> tuple[int, int]:
    """The part of the chain that holds the steps of a query: positions after the first, up to the second."""
    end = db.execute("SELECT max(seq) FROM rollouts").fetchone()[0] or 0
    after = "SELECT seq FROM groups WHERE step >= ? ORDER BY step, seq LIMIT 1"
    first = db.execute(after, (query.first,)).fetchone() if query.first is not None else (0,)
    beyond = db.execute(after, (query.last + 1,)).fetchone() if query.last is not None else None
    return (end if first is None else first[0] - 1), (end if beyond is None else beyond[0])


def step_at(db: sqlite3.Connection, seq: int) -> int | None:
    """The step of the last group that begins at a position or before."""
    row = db.execute("SELECT step FROM groups WHERE seq <= ? ORDER BY seq DESC LIMIT 1", (seq,)).fetchone()
    return row[0] if row else None


def terms(db: sqlite3.Connection, query: Query) -> tuple[str, list[Any]]:
    """The conditions of a query on a row of `rollouts`, apart from its text and steps."""
    equal = {"split": query.split, "status": query.status, "finish": query.finish, "player": query.player}
    conditions: list[tuple[str, list[Any]]] = [
        (f"{name} = ?", [value]) for name, value in equal.items() if value not in ("", None)
    ]
    if query.low is not None:
        conditions.append(("reward >= ?", [query.low]))
    if query.high is not None:
        conditions.append(("reward <= ?", [query.high]))
    if query.task:
        conditions.append(among(tasks_named(db, query.task)))
    return "".join(f" AND {term}" for term, _ in conditions), [
        value for _, supplied in conditions for value in supplied
    ]


def tasks_named(db: sqlite3.Connection, task: str) -> list[list[Any]]:
    """Split and index of the tasks with this index, or with this id."""
    tasks = [list(row) for row in db.execute("SELECT split, task FROM ids WHERE id = ? LIMIT 100", (task,))]
    if (number := whole(task)) is not None:
        splits = [split for (split,) in db.execute("SELECT value FROM seen WHERE name = 'split' ORDER BY value")]
        tasks += [[split, number] for split in splits if [split, number] not in tasks]
    return tasks


def among(tasks: list[list[Any]]) -> tuple[str, list[Any]]:
    """The condition that a row is of one of these tasks."""
    pairs = ", ".join(["(?, ?)"] * len(tasks)) or "(NULL, NULL)"
    return f"(split, task) IN (VALUES {pairs})", [value for task in tasks for value in task]


def spans(db: sqlite3.Connection, query: Query, after: int, end: int) -> Iterator[tuple[int, int]]:
    """Parts of the chain, in order, outside which nothing can match: positions after the first, up to the second."""
    first = db.execute("SELECT max(seq) FROM groups WHERE seq <= ?", (after,)).fetchone()[0] or 0
    text = fold(query.text)
    if len(text) >= 3 and has_texts(db):
        pieces = sorted({text[at : at + 3] for at in range(min(len(text) - 2, SPELLED))})
        match = " AND ".join('"' + piece.replace('"', '""') + '"' for piece in pieces)
        matching = (
            "SELECT texts.rowid, size FROM texts LEFT JOIN groups ON seq = texts.rowid "
            "WHERE texts MATCH ? AND texts.rowid >= ? AND texts.rowid <= ? ORDER BY texts.rowid"
        )
        for seq, size in db.execute(matching, (match, first, end)):
            yield (seq - 1, seq) if size is None else (seq, seq + size)
    elif query.task:
        condition, values = among(tasks_named(db, query.task))
        of = f"SELECT seq, seq + size FROM groups WHERE {condition} AND seq >= ? AND seq <= ? ORDER BY seq"
        yield from db.execute(of, (*values, first, end))
    else:
        yield from ((start, start + SPAN) for start in range(after, end, SPAN))


def select(
    db: sqlite3.Connection, condition: str, values: list[Any], after: int, last: int
) -> Iterator[dict[str, Any]]:
    """The rows of a part of the chain that meet the conditions."""
    query = f"SELECT {', '.join(COLUMNS)} FROM rollouts WHERE seq > ? AND seq <= ?{condition} ORDER BY seq"
    for row in db.execute(query, (after, last, *values)):
        yield dict(zip(COLUMNS, row, strict=True))


class Asking:
    """Looks into the records for a text. Args: text: empty where any will do."""

    def __init__(self, reader: RunReader, text: str) -> None:
        self.reader, self.text = reader, fold(text)
        self.asked: Record | None = None

    def excerpt(self, row: Mapping[str, Any]) -> dict[str, str] | None:
        """The text with what stands around it: `before`, `text`, `after`, and in `where` if it is in the prompt.

        Without a text the beginning of the reply. None where the rollout does not hold the text.
        """
        record = self._record(row["seq"])
        if not self.text:
            return {"where": "", "before": "", "text": "", "after": str(record.body["reply"])[: 2 * AROUND]}
        if self.asked is None or self.asked.seq != row["asked"]:
            self.asked = self._record(row["asked"])
        for where, each in (("", record), ("prompt", self.asked)):
            for text in texts_of(each):
                if (at := fold(text).find(self.text)) >= 0:
                    end = at + len(self.text)
                    before, after = text[max(0, at - AROUND) : at], text[end : end + AROUND]
                    return {"where": where, "before": before, "text": text[at:end], "after": after}
        return None

    def _record(self, seq: int) -> Record:
        return self.reader.record(seq)
