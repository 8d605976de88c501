"""The rows of a data set: a file of JSON, CSV or Parquet, or a data set in the hub's format."""

from __future__ import annotations

import importlib
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gnomon.errors import ConfigError, ResourceError, sibling

__all__ = ["Row", "content_hash", "is_file", "locate", "read_rows", "stamp"]

Row = Mapping[str, Any]
TEXT = (".jsonl", ".ndjson", ".json", ".csv", ".tsv")
PACKED = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma"}
"""The module that reads a compressed text file, by its last suffix."""
BEGINS = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".xz": b"\xfd7zXZ"}
"""First bytes of compressed files."""
CONTAINERS = ("data", "rows", "examples", "instances", "items", "questions")
"""Keys under which a JSON object may hold all rows."""


def read_rows(path: str, split: str = "", config: str = "", revision: str = "") -> tuple[Row, ...]:
    """All rows of a file, a folder or a hub name, in order; `questions` is shipped.

    Args: split, config, revision: of a folder or hub name. An empty split is the only one, or "train". Files have none.
    Raises: ConfigError E150, with the line, for unreadable data; ResourceError E505 for a missing package.
    """
    path = locate(path)
    if is_file(path):
        return file_rows(path, stamp(path))
    if Path(path).is_file():
        why = f"its suffix must be .parquet or one of {', '.join(TEXT)}, which {', '.join(PACKED)} may follow"
        raise unreadable(path, why, "convert the file, or rename it if it has one of these formats")
    return hub(path, split, config, revision)


def locate(path: str) -> str:
    """The path, or the path of the shipped data set."""
    return str(files("gnomon.envs").joinpath("questions.jsonl")) if path == "questions" else path


def is_file(path: str) -> bool:
    """Whether the suffix is that of a file; else the path is a folder or a hub name."""
    return uncompressed_name(path).endswith(TEXT) or path.lower().endswith(".parquet")


def uncompressed_name(path: str) -> str:
    """The path in lower case, without the suffix of a compressed file."""
    return re.sub(rf"({'|'.join(map(re.escape, PACKED))})$", "", path.lower())


def stamp(path: str) -> tuple[int, int]:
    """Modification time and size of a file, so that a changed file is read again."""
    try:
        status = Path(path).stat()
    except OSError as error:
        near = sibling(path, lambda path: is_file(path.name))
        fix = f"{near} is a file of rows" if near else "give a path relative to this folder"
        raise unreadable(path, error.strerror or "", fix) from error
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=8)
def file_rows(path: str, stamp: tuple[int, int]) -> tuple[Row, ...]:
    if path.lower().endswith(".parquet"):
        return tuple(parquet(path))
    text = text_of(path)
    if not uncompressed_name(path).endswith((".csv", ".tsv")):
        return tuple(json_rows(path, text))
    from gnomon.envs.csv_rows import csv_rows

    try:
        return tuple(csv_rows(text, "\t" if uncompressed_name(path).endswith(".tsv") else ""))
    except ValueError as error:
        fix = "write one row per line, with double quotes around a field that contains a separator or a line end"
        raise unreadable(path, str(error), fix) from error


def text_of(path: str) -> str:
    """The text of a file that may be compressed, in UTF-8, UTF-16 or UTF-32. Raises: ConfigError E150."""
    data = content(path)
    try:
        return data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as error:
        if suffix := next((suffix for suffix, begins in BEGINS.items() if data.startswith(begins)), ""):
            fix = f"mv {shlex.quote(path)} {shlex.quote(path + suffix)}  # and name the new file"
            raise unreadable(path, f"it is compressed, and its name does not end in {suffix}", fix) from error
        line = data.count(b"\n", 0, error.start) + 1
        other = shlex.quote(str(Path(path).with_name(f"utf8-{Path(path).name}")))
        fix = f"iconv -f WINDOWS-1252 -t UTF-8 {shlex.quote(path)} > {other}  # and name the new file"
        raise unreadable(f"{path}, line {line}", str(error), fix) from error


def content(path: str) -> bytes:
    """The bytes of a file, or those that were compressed in it. Raises: ConfigError E150."""
    data, module = Path(path).read_bytes(), PACKED.get(Path(path.lower()).suffix)
    if module is None:
        return data
    try:
        return bytes(importlib.import_module(module).decompress(data))
    except Exception as error:  # Each module has its own.
        raise unreadable(path, f"{type(error).__name__}: {error}", "compress the file again") from error


def json_rows(path: str, text: str) -> Iterator[Row]:
    """Rows from JSON: one object a line, an array of objects, or an object that holds the array."""
    try:
        whole = json.loads(text)
    except RecursionError as error:
        raise unreadable(path, *NESTED) from error
    except ValueError as error:
        if text.lstrip().startswith("["):
            raise unreadable(path, str(error), "write a JSON array of objects, or one object a line") from error
        return lines(path, text)
    return rows_of(path, whole)


def rows_of(path: str, whole: Any) -> Iterator[Row]:
    """The rows of a JSON value: of an array, or of the array that an object holds, or the object itself."""
    if isinstance(whole, dict):
        arrays = [key for key, value in whole.items() if isinstance(value, list) and key in CONTAINERS]
        whole = (
            whole[arrays[0]] if len(arrays) == 1 and all(isinstance(row, dict) for row in whole[arrays[0]]) else [whole]
        )
    for index, row in enumerate(whole if isinstance(whole, list) else [whole]):
        if not isinstance(row, dict):
            why = f"a row must be a JSON object, not {type(row).__name__}"
            raise unreadable(f"{path}, row {index}", why, f"a row is {EXAMPLE}")
        yield row


NESTED = ("its values are nested too deep", "remove the row")
EXAMPLE = '{"prompt": "2+2?", "answer": "4"}'


def lines(path: str, text: str) -> Iterator[Row]:
    for number, line in enumerate(re.split("\r\n|\r|\n", text), 1):
        try:
            row = json.loads(line) if line.strip() else {}
            if not isinstance(row, dict):
                raise ValueError(f"a line must be a JSON object, not {type(row).__name__}")
        except RecursionError as error:
            raise unreadable(f"{path}, line {number}", *NESTED) from error
        except ValueError as error:
            why = f"{type(error).__name__}: {error}"
            raise unreadable(f"{path}, line {number}", why, f"one line is {EXAMPLE}") from error
        if row:
            yield row


def parquet(path: str) -> list[Row]:
    require("pyarrow", "parquet", path)
    import pyarrow.parquet as pq

    try:
        rows: list[Row] = pq.read_table(path).to_pylist()
    except Exception as error:  # pyarrow and its dependencies raise many types
        raise unreadable(path, f"{type(error).__name__}: {error}", "give a file that pyarrow can read") from error
    return rows


@lru_cache(maxsize=8)
def hub(name: str, split: str, config: str, revision: str) -> tuple[Row, ...]:
    require("datasets", "datasets", name)
    import datasets

    try:
        source = name if Path(name).is_dir() else hub_source(name, revision)
        dataset = datasets.load_dataset(source, config or None, revision=(source == name and revision) or None)
    except Exception as error:  # loaders, downloads and formats raise many types
        raise unreadable(name, f"{type(error).__name__}: {str(error)[:300]}", other_source(name, revision)) from error
    chosen_split = split or ("train" if "train" in dataset or len(dataset) != 1 else next(iter(dataset)))
    if chosen_split not in dataset:
        raise unreadable(name, f"it has no split {chosen_split!r}", f"one of {', '.join(map(str, dataset))}")
    return tuple(dict(row) for row in dataset[chosen_split])


def hub_source(name: str, revision: str) -> str:
    """The name of a hub data set. Where HF_HUB_OFFLINE is set, the folder that the hub's cache has of it, if any.

    Without a hub, the package datasets reads whichever revision it has read before, so this asks for a revision.
    Raises: exceptions of huggingface_hub for a revision that neither the hub nor the cache has.
    """
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    if not constants.HF_HUB_OFFLINE:
        if revision:
            HfApi().dataset_info(name, revision=revision)
        return name
    try:
        return str(snapshot_download(name, repo_type="dataset", revision=revision or None, local_files_only=True))
    except LocalEntryNotFoundError:
        if revision:
            raise
        return name


def other_source(name: str, revision: str = "") -> str:
    """What to do about a data set that cannot be read."""
    if Path(name).is_dir() or name.count("/") != 1:
        return "give a .jsonl, .csv or .parquet file, a folder in the hub's format, or owner/name of a hub data set"
    folder, at = f"data/{name.rpartition('/')[2]}", f" --revision {revision}" if revision else ""
    download = f"hf download --repo-type dataset {name}{at} --local-dir {folder}"
    return f"where there is a hub: {download}; then env.path={folder}"


def content_hash(rows: Iterable[Row]) -> str:
    """SHA-256 over the values of the rows, in order, as hexadecimal digits."""
    total = sha256()
    for row in rows:
        total.update(json.dumps(row, sort_keys=True, default=repr).encode() + b"\n")
    return total.hexdigest()


def unreadable(where: str, why: str, fix: str) -> ConfigError:
    return ConfigError("E150", "the data set cannot be read", where=where, why=why, fix=fix)


def require(package: str, extra: str, where: str) -> None:
    if find_spec(package) is None:
        raise ResourceError(
            "E505",
            f"reading this data set needs the package {package}",
            where=where,
            fix=f'pip install "gnomon[{extra}]"',
        )
