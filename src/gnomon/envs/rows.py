"""The rows of a data set: JSON lines, a Parquet file, or a data set in the hub's format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gnomon.errors import ConfigError, ResourceError, sibling

__all__ = ["Row", "content_hash", "is_file", "located", "read", "stamp"]

Row = Mapping[str, Any]
JSON = (".jsonl", ".ndjson", ".json")


def read(path: str, split: str = "", config: str = "", revision: str = "") -> tuple[Row, ...]:
    """All rows of `file.jsonl`, `file.parquet`, a folder or a hub name, in order; `questions` is shipped.

    Args: split, config, revision: of a folder or hub name. An empty split is the only one, or "train". Files have none.
    Raises: ConfigError E150, with the line, for unreadable data; ResourceError E505 for a missing package.
    """
    path = located(path)
    return file_rows(path, stamp(path)) if is_file(path) else hub(path, split, config, revision)


def located(path: str) -> str:
    """The path, or the path of the shipped data set."""
    return str(files("gnomon.envs").joinpath("questions.jsonl")) if path == "questions" else path


def is_file(path: str) -> bool:
    """Whether the suffix is that of a file; else the path is a folder or a hub name."""
    return path.endswith((*JSON, ".parquet"))


def stamp(path: str) -> tuple[int, int]:
    """Modification time and size of a file, so that a changed file is read again."""
    try:
        found = Path(path).stat()
    except OSError as error:
        near = sibling(path, lambda path: is_file(path.name))
        fix = f"{near} is a file of rows" if near else "give a path relative to this folder"
        raise unreadable(path, error.strerror or "", fix) from error
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=8)
def file_rows(path: str, stamp: tuple[int, int]) -> tuple[Row, ...]:
    return tuple(parquet(path) if path.endswith(".parquet") else lines(path))


def lines(path: str) -> Iterator[Row]:
    for number, line in enumerate(Path(path).read_bytes().splitlines(), 1):
        try:
            row = json.loads(line) if line.strip() else {}
            if not isinstance(row, dict):
                raise ValueError(f"a line must be a JSON object, not {type(row).__name__}")
        except ValueError as error:
            fix = 'one line is {"prompt": "2+2?", "answer": "4"}'
            raise unreadable(f"{path}, line {number}", f"{type(error).__name__}: {error}", fix) from error
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
        found = datasets.load_dataset(name, config or None, revision=revision or None)
    except Exception as error:  # loaders, downloads and formats raise many types
        raise unreadable(name, f"{type(error).__name__}: {str(error)[:300]}", other_source(name)) from error
    wanted = split or ("train" if "train" in found or len(found) != 1 else next(iter(found)))
    if wanted not in found:
        raise unreadable(name, f"it has no split {wanted!r}", f"one of {', '.join(map(str, found))}")
    return tuple(dict(row) for row in found[wanted])


def other_source(name: str) -> str:
    """What to do about a data set that cannot be read."""
    if Path(name).is_dir() or name.count("/") != 1:
        return "give a .jsonl or .parquet file, a folder in the hub's format, or owner/name of a hub data set"
    folder = f"data/{name.rpartition('/')[2]}"
    return f"where there is a hub: hf download --repo-type dataset {name} --local-dir {folder}; then env.path={folder}"


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
