"""The rollouts of a run as files for other software: Parquet, lines of JSON, or a folder in the format of the hub."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from shutil import rmtree
from typing import Any
from uuid import uuid4

from gnomon.errors import ConfigError, ResourceError
from gnomon.store import RunReader
from gnomon.store.columns import Column, columns, rollout_table
from gnomon.store.layout import of_set

__all__ = ["export_rollouts"]

ROWS = 1000
"""Rollouts of a row group in Parquet, and between two reports of progress."""
FEATURES = {
    "int": "dtype: int64",
    "float": "dtype: float64",
    "text": "dtype: string",
    "flag": "dtype: bool",
    "ints": "list: int64",
    "floats": "list: float64",
    "messages": "list:\n    - name: role\n      dtype: string\n    - name: content\n      dtype: string",
    "parts": "list:\n    - name: name\n      dtype: string\n    - name: value\n      dtype: float64\n"
    "    - name: weight\n      dtype: float64",
}
"""Features of a data set card by kind of column."""

Progress = Callable[[int, int], None]


def export_rollouts(
    run: Path, target: Path, *, tokens: bool = False, progress: Progress = lambda done, total: None
) -> dict[str, int]:
    """Write every rollout of a run, trained on or held out, in the order of the run. Columns: `gnomon.store.columns`.

    Args:
        target: `FILE.parquet`, `FILE.jsonl`, or a folder: it gets a Parquet file per split, and a card.
        tokens: with token ids and log-probabilities.
        progress: called with the number of rollouts written, and their total.
    Returns: number of rollouts by file. A file is complete or absent.
    Raises: ConfigError E053 for another ending, E092 for a file that exists; ResourceError E505 without pyarrow.
    """
    if target.exists():
        raise ConfigError(
            "E092", f"{target} exists", where="the place of the export", why="an export never overwrites files",
            fix=f"gnomon export-rollouts {shlex.quote(str(run))} {shlex.quote(str(other(target)))}",
        )  # fmt: skip
    if target.suffix not in ("", ".parquet", ".jsonl"):
        raise ConfigError(
            "E053", f"rollouts cannot be written as {target.suffix}", where=str(target),
            fix="give FILE.parquet, FILE.jsonl, or a folder for a data set of the hub",
        )  # fmt: skip
    if target.suffix != ".jsonl" and find_spec("pyarrow") is None:
        raise ResourceError(
            "E505", "writing Parquet needs the package pyarrow", where=str(target),
            fix='pip install "gnomon[parquet]", or give FILE.jsonl',
        )  # fmt: skip
    of = columns(tokens)
    with RunReader(run) as reader, reader.snapshot(), fresh(target) as path:
        sets = sum(reader.count(of_set("held_out", name)) for name in reader.sets)
        counts = {"train": reader.count("rollout"), "test": reader.count("held_out") + sets}
        if target.suffix:
            write = parquet if target.suffix == ".parquet" else json_lines
            write(path, of, with_progress(rollout_table(reader.records(), tokens), sum(counts.values()), progress))
            return {target.name: sum(counts.values())}
        return hub_folder(path, reader, tokens, counts, progress)


def other(target: Path) -> Path:
    """A place beside this one that is free."""
    return next(path for n in range(2, 10**6) if not (path := target.with_stem(f"{target.stem}-{n}")).exists())


@contextmanager
def fresh(target: Path) -> Iterator[Path]:
    """A path to write to; it becomes `target` when all went well."""
    target.absolute().parent.mkdir(parents=True, exist_ok=True)
    path = target.absolute().with_name(f".{target.stem}-{uuid4().hex[:8]}{target.suffix}")
    try:
        yield path
        os.replace(path, target)
    finally:
        if path.is_dir():
            rmtree(path)
        path.unlink(missing_ok=True)


def with_progress(rows: Iterator[dict[str, Any]], total: int, progress: Progress) -> Iterator[dict[str, Any]]:
    """The rows, with a report of progress after every `ROWS`."""
    done = 0
    for done, row in enumerate(rows, 1):
        yield row
        if done % ROWS == 0:
            progress(done, total)
    progress(done, total)


def json_lines(path: Path, of: Sequence[Column], rows: Iterator[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def parquet(path: Path, of: Sequence[Column], rows: Iterator[dict[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    text, number = pa.string(), pa.float64()
    types = {
        "int": pa.int64(),
        "float": number,
        "text": text,
        "flag": pa.bool_(),
        "messages": pa.list_(pa.struct({"role": text, "content": text})),
        "parts": pa.list_(pa.struct({"name": text, "value": number, "weight": number})),
        "ints": pa.list_(pa.int64()),
        "floats": pa.list_(number),
    }
    schema = pa.schema({column.name: types[column.kind] for column in of})
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while some := list(islice(rows, ROWS)):
            writer.write_table(pa.Table.from_pylist(some, schema))


def hub_folder(
    folder: Path, reader: RunReader, tokens: bool, counts: Mapping[str, int], progress: Progress
) -> dict[str, int]:
    """A Parquet file for each split that has rollouts, and README.md."""
    (folder / "data").mkdir(parents=True)
    files, done, total = {}, 0, sum(counts.values())
    for split, count in counts.items():
        if not count:
            continue
        rows = (row for row in rollout_table(reader.records(), tokens) if row["split"] == split)
        name, before = f"data/{split}-00000-of-00001.parquet", done
        report = with_progress(rows, total, lambda some, _, before=before: progress(before + some, total))  # type: ignore[misc]
        parquet(folder / name, columns(tokens), report)
        files[name], done = count, done + count
    (folder / "README.md").write_text(card(reader, tokens, {s: n for s, n in counts.items() if n}), "utf-8")
    return files


def card(reader: RunReader, tokens: bool, counts: Mapping[str, int]) -> str:
    """The data set card: where the files of each split are, the columns, and the run they come from."""
    of = columns(tokens)
    lines = ["---", "tags:", "- gnomon", "- reinforcement-learning", "configs:", "- config_name: default"]
    lines += ["  data_files:", *(f"  - split: {split}\n    path: data/{split}-*.parquet" for split in counts)]
    lines += ["dataset_info:", "  features:", *(f"  - name: {c.name}\n    {FEATURES[c.kind]}" for c in of), "  splits:"]
    lines += [f"  - name: {split}\n    num_examples: {count}" for split, count in counts.items()]
    lines += ["---", "", f"# Rollouts of {reader.folder.name}", ""]
    lines += [f"Every rollout of a Gnomon run: {reader.steps} training steps, status {reader.status.value}."]
    lines += [f"Fingerprint of the run: `{reader.fingerprint}`.", "", "| column | meaning |", "|---|---|"]
    lines += [f"| `{column.name}` | {column.meaning} |" for column in of]
    return "\n".join([*lines, ""])
