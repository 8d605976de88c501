"""The layout of a run folder: file names, format, records, and the hash chain.

    recipe.toml      the recipe, as it was written
    manifest.json    versions, hardware, code state
    prediction.json  what somebody expected before the run began; the first record holds its SHA-256
    note.json        the user's note and tags; nothing depends on it
    journal.db       every record (SQLite): the chain; and beside the chain status, events, timings
    unfinished/      <step>.jsonl with the finished episodes of steps that are not recorded yet
    images/          <sha256>.png or .jpg: the images of prompts, written before the prompt is sampled from
    checkpoints/     <step>/ with files, state.json and MANIFEST.json
    quarantine/      checkpoints that failed verification
    LOCK             held by the writing process

The chain contains only data that a second run of the same recipe repeats byte for byte. So the head of the chain is the
**fingerprint** of the run. Times are stored beside the chain.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any

from gnomon.errors import RunError

__all__ = [
    "CHECKPOINTS",
    "CHECKPOINT_MANIFEST",
    "CHECKPOINT_STATE",
    "EXTENSION",
    "FORMAT",
    "IMAGES",
    "JOURNAL",
    "LOCK",
    "MANIFEST",
    "PREDICTION",
    "QUARANTINE",
    "RECIPE",
    "ROOT",
    "SCHEMA",
    "UNFINISHED",
    "Record",
    "RunStatus",
    "bodies",
    "canonical",
    "is_rollout",
    "link",
    "of_set",
    "pack",
    "set_of",
    "unpack",
]

FORMAT = 1
EXTENSION = "extension"
"""The kind of a record of settings that changed when a run was resumed."""
RECIPE = "recipe.toml"
MANIFEST = "manifest.json"
PREDICTION = "prediction.json"
JOURNAL = "journal.db"
UNFINISHED = "unfinished"
IMAGES = "images"
LOCK = "LOCK"
CHECKPOINTS = "checkpoints"
QUARANTINE = "quarantine"
CHECKPOINT_STATE = "state.json"
CHECKPOINT_MANIFEST = "MANIFEST.json"

ROOT = sha256(f"gnomon-chain-{FORMAT}".encode()).digest()
"""The hash before the first record."""

APPLICATION = 0x474E4F4D
"""`GNOM` in the header of `journal.db`; the header's `user_version` is the format."""

SCHEMA = f"""
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {FORMAT};
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE records (
    seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, step INTEGER, task INTEGER, sample INTEGER,
    packed INTEGER NOT NULL, body BLOB NOT NULL, hash BLOB NOT NULL,
    reward REAL, status TEXT, tokens INTEGER);
CREATE INDEX records_by_kind ON records (kind);
CREATE INDEX records_by_step ON records (step, kind, task, sample);
CREATE INDEX records_by_task ON records (task, step);
CREATE TABLE events (id INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE timings (id INTEGER PRIMARY KEY, at REAL NOT NULL, step INTEGER NOT NULL, body TEXT NOT NULL);
"""

COLUMNS = "seq, kind, step, task, sample, packed, body, hash, reward, status, tokens"
SMALL = 256
"""Bodies of up to this many bytes are not compressed."""


class RunStatus(StrEnum):
    """The state of a run. Stored beside the chain."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    """Stopped before its end. It can be resumed."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of a run. A second run of the same recipe repeats it."""

    kind: str
    """`genesis`, `baseline`, `rollout`, `step`, `evaluation`, `evaluation.SET`, `extension` …"""
    step: int | None = None
    task: int | None = None
    """Index of the task in its split."""
    sample: int | None = None
    """Position in the group of its task, from 0."""
    body: Mapping[str, Any]
    """Plain JSON values; numbers are finite."""
    seq: int = -1
    """Position in the chain; set when the record is stored."""
    hash: str = ""
    """Hash of the chain up to and including this record; set when it is stored."""

    def __post_init__(self) -> None:
        for name in ("step", "task", "sample"):
            value = getattr(self, name)
            if value is not None and type(value) is not int:
                raise _not_json(name, f"{value!r} is a {type(value).__name__} and must be an int")

    @property
    def place(self) -> str:
        """The record in words: `rollout of step 3, task 7, sample 2`."""
        names = [f"{name} {value}" for name in ("step", "task", "sample") if (value := getattr(self, name)) is not None]
        return f"{self.kind} of {', '.join(names)}" if names else self.kind


def canonical(value: Any) -> bytes:
    """The canonical JSON text of a value: sorted keys, no spaces, ASCII, floats that parse to the same value.

    Raises: RunError E407 for NaN, an infinity, a key that is not text, or a value that is not JSON.
    """
    for path, mapping in _mappings(value, ""):
        for key in mapping:
            if not isinstance(key, str):
                raise _not_json(path or "the body", f"the key {key!r} is a {type(key).__name__} and not text")
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise _not_json(*_culprit(value, "") or ("the body", str(error))) from None
    return text.encode("ascii")


def link(previous: bytes, record: Record, body: bytes) -> bytes:
    """The hash of a record at its position in the chain.

    Equation: h_n = SHA-256(h_{n-1} ‖ JSON [kind, step, task, sample] ‖ newline ‖ canonical body).
    The newline cannot occur inside either JSON text, so no two records share an encoding.
    """
    head = canonical([record.kind, record.step, record.task, record.sample])
    return sha256(b"".join((previous, head, b"\n", body))).digest()


def pack(seq: int, previous: bytes, record: Record) -> tuple[Any, ...]:
    """The row that stores a record at `seq` (`COLUMNS`)."""
    body = canonical(record.body)
    digest = link(previous, record, body)
    packed = len(body) > SMALL
    data = zlib.compress(body) if packed else body
    return (
        *(seq, record.kind, record.step, record.task, record.sample),
        *(int(packed), data, digest, *glance(record)),
    )


def of_set(kind: str, name: str) -> str:
    """The kind of the records of an evaluation set: `held_out.NAME`, `baseline.NAME`, `evaluation.NAME`.

    Args: name: of the set; empty for the main evaluation.
    """
    return f"{kind}.{name}" if name else kind


def set_of(kind: str) -> str:
    """The evaluation set of a kind of record; empty for the main evaluation, and for any other kind."""
    return kind.partition(".")[2]


def is_rollout(kind: str) -> bool:
    """Whether records of a kind are rollouts, of training or of an evaluation."""
    return kind.partition(".")[0] in ("rollout", "held_out")


def glance(record: Record) -> tuple[float | None, str | None, int | None]:
    """Reward, status and number of tokens of a rollout, for columns that can be read without the body."""
    if not is_rollout(record.kind):
        return None, None, None
    reward, status, tokens = (record.body.get(name) for name in ("reward", "status", "tokens"))
    return (
        float(reward) if isinstance(reward, int | float) else None,
        str(status) if isinstance(status, str) else None,
        tokens if isinstance(tokens, int) else None,
    )


def unpack(row: tuple[Any, ...]) -> tuple[Record, bytes]:
    """Decode a row into its record and its canonical body.

    Raises: RunError E405 if the row cannot be decoded.
    """
    seq, kind, step, task, sample, _, _, digest = row[:8]
    try:
        raw = canonical_body(row)
        body = json.loads(raw)
        record = Record(kind=kind, step=step, task=task, sample=sample, body=body, seq=seq, hash=digest.hex())
    except (zlib.error, ValueError, TypeError, AttributeError, RunError) as error:
        raise RunError(
            "E405", f"record {seq} ({kind}) is damaged", why=f"its content cannot be read: {error}"
        ) from None
    return record, raw


def canonical_body(row: tuple[Any, ...]) -> bytes:
    """The canonical body of a row, which may be damaged."""
    packed, data = row[5:7]
    return zlib.decompress(data) if packed else bytes(data)


def bodies(rows: Sequence[tuple[Any, ...]]) -> list[Mapping[str, Any]]:
    """The bodies of rows alone, read as one text: faster than `unpack` for many small ones. Raises: as `unpack`."""
    with suppress(zlib.error, ValueError, TypeError):
        result: list[Mapping[str, Any]] = json.loads(b"[" + b",".join(map(canonical_body, rows)) + b"]")
        if len(result) == len(rows):
            return result
    return [unpack(row)[0].body for row in rows]  # It says which one is damaged.


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{value!r} is a {type(value).__name__}")


def _mappings(value: Any, path: str) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    if isinstance(value, Mapping):
        yield path, value
        for key, item in value.items():
            if isinstance(item, Mapping | list | tuple):
                yield from _mappings(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            if isinstance(item, Mapping | list | tuple):
                yield from _mappings(item, f"{path}[{index}]")


def _culprit(value: Any, path: str) -> tuple[str, str] | None:
    """The path of the first value that is not JSON, and the reason."""
    if isinstance(value, Mapping):
        items = [(f"{path}.{key}" if path else str(key), item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        items = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    else:
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            kind = type(value).__name__
            return path, f"{value!r} is not a finite number" if isinstance(value, float) else f"it is a {kind}"
        return None
    return next((culprit for name, item in items if (culprit := _culprit(item, name))), None)


def _not_json(where: str, why: str) -> RunError:
    fix = "record plain JSON values and finite numbers; leave out undefined values"
    return RunError("E407", "a record cannot be stored", where=where, why=why, fix=fix)
