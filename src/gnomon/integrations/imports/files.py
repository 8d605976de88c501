"""Rows of the files that other trainers write, each with its place, and their fields."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from os import SEEK_END
from pathlib import Path
from typing import Any

from gnomon.errors import ConfigError, ResourceError

__all__ = ["Options", "Position", "Row", "files", "json_rows", "optional", "parquet_rows", "require", "rows"]

Row = Mapping[str, Any]


@dataclass(slots=True)
class Position:
    """How much of a file was read."""

    offset: int = 0
    """In bytes, of a file of lines."""
    number: int = 0
    """Of rows, or of lines with the empty ones."""
    ended: bool = True
    """Whether the last line that was read has its end."""
    rows: set[str] = field(default_factory=set)
    """The rows themselves, for a format that may log one twice."""
    changed: int = 0
    """When a Parquet file that was read to its end had been written, in nanoseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a user says about a log."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """Field of the log by what it holds: `prompt`, `reply`, `answer`, `reward`, `step` …"""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Weight of each part of the reward, if not 1."""
    held_out: bool = False
    """Whether all rollouts are those of evaluations."""
    positions: dict[Path, Position] | None = None
    """How much of each file was read, if more is written to them. Then a line that is not complete, or a Parquet file
    without its footer, is left for the next time."""

    def position(self, path: Path) -> Position:
        """Where to go on in a file; its readers move it."""
        return Position() if self.positions is None else self.positions.setdefault(path, Position())


def files(source: Path, pattern: str) -> list[Path]:
    """The file itself, or all files below a folder whose names match, in the order of the numbers in their paths.

    Raises: ConfigError E063 if there are none.
    """
    paths = [source] if source.is_file() else sorted(source.rglob(pattern), key=natural)
    if not paths:
        why = "the folder contains no such file" if source.is_dir() else "the path does not exist"
        raise ConfigError(
            "E063", f"there are no files {pattern} to import", where=str(source), why=why,
            fix="give the folder or file that the trainer wrote",
        )  # fmt: skip
    return paths


def natural(path: Path) -> list[tuple[int, str]]:
    """Sorts `step_2` before `step_10`."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", str(path))]


def rows(path: Path, options: Options) -> Iterator[tuple[str, Row]]:
    """The rows of a Parquet file or of lines of JSON, each after its place."""
    return parquet_rows(path, options) if path.suffix == ".parquet" else json_rows(path, options)


def json_rows(path: Path, options: Options) -> Iterator[tuple[str, Row]]:
    """Raises: ConfigError E064 for a line that is not a JSON object, and a file that became shorter."""
    at = options.position(path)
    with path.open("rb") as lines:
        if lines.seek(0, SEEK_END) < at.offset:
            raise unreadable(str(path), f"it was {at.offset} bytes long and is shorter now")
        lines.seek(at.offset)
        for line in lines:
            text, ended = line.decode("utf-8-sig", "replace").strip(), line.endswith(b"\n")
            if options.positions is not None and not ended and not is_object(text):
                return
            at.offset, at.number, at.ended = at.offset + len(line), at.number + at.ended, ended
            if not text:
                continue
            try:
                row = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise unreadable(f"{path}, line {at.number}", str(error)) from error
            if not isinstance(row, dict):
                raise unreadable(f"{path}, line {at.number}", f"a line is an object, not a {type(row).__name__}")
            yield f"{path.name}:{at.number}", row


def is_object(text: str) -> bool:
    """Whether a line without its end is complete: no part of a JSON object is one."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def parquet_rows(path: Path, options: Options) -> Iterator[tuple[str, Row]]:
    """Raises: ConfigError E064; ResourceError E505 without pyarrow."""
    if find_spec("pyarrow") is None:
        fix = 'pip install "gnomon[parquet]"'
        raise ResourceError("E505", "reading this file needs the package pyarrow", where=str(path), fix=fix)
    import pyarrow.parquet as pq

    at, number = options.position(path), 0
    modified = path.stat().st_mtime_ns
    if at.changed == modified:
        return
    try:
        for batch in pq.ParquetFile(path).iter_batches(1000):
            for row in batch.to_pylist():
                number += 1
                if number > at.number:
                    at.number = number
                    yield f"{path.name}:{number}", row
        at.changed = modified
    except (OSError, ValueError) as error:  # pyarrow's own errors are values
        if options.positions is not None:
            return
        raise unreadable(str(path), str(error)) from error


def unreadable(where: str, why: str) -> ConfigError:
    return ConfigError("E064", "the log cannot be read", where=where, why=why, fix="check --format, and the file")


def require(row: Row, name: str, options: Options, where: str, default: str = "") -> Any:
    """A field of a row. Args: name: what it holds; default: its name in the log, if the user says no other.

    Raises: ConfigError E062 if the row does not have it.
    """
    column = options.columns.get(name, default or name)
    if column not in row:
        raise ConfigError(
            "E062", f"the log has no field {column!r} for the {name}", where=where,
            why=f"its fields are {', '.join(map(str, row))}", fix=f"say which field it is: {name}=FIELD",
        )  # fmt: skip
    return row[column]


def optional(row: Row, name: str, options: Options, default: str = "", where: str = "") -> Any:
    """A field of a row that may be absent: then None. Raises: as `require`, for a field that the user names."""
    if name in options.columns:
        return require(row, name, options, where)
    return row.get(default or name)


def others(row: Row, names: Sequence[str]) -> dict[str, Any]:
    """The fields of a row that are not among those known."""
    return {name: value for name, value in row.items() if name not in names}
