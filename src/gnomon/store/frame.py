"""A run as a data frame of pandas or polars."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from gnomon.errors import ConfigError, ResourceError
from gnomon.store.columns import Column, columns, rollout_table

if TYPE_CHECKING:
    from gnomon.store.reader import RunReader

__all__ = ["Frame", "Library", "frame"]

Frame = Literal["rollouts", "metrics", "evaluations"]
Library = Literal["pandas", "polars"]
PANDAS = {"int": "Int64", "float": "float64", "text": "string", "flag": "boolean"}
"""Data types of pandas by kind of column; all others are objects."""


def frame(reader: RunReader, table: Frame, library: Library, tokens: bool) -> Any:
    """Raises: ConfigError E007 for an unknown table or library; ResourceError E505 if the library is not installed."""
    if table not in TABLES:
        fix = f"one of {', '.join(TABLES)}"
        raise ConfigError("E007", f"a run has no table {table!r}", where="RunReader.frame", fix=fix)
    if library not in LIBRARIES:
        fix = f"library={' or library='.join(map(repr, LIBRARIES))}"
        raise ConfigError("E007", f"{library!r} is not a library of data frames", where="RunReader.frame", fix=fix)
    if find_spec(library) is None:
        fix = f'pip install "gnomon[{library}]"'
        raise ResourceError("E505", f"a data frame needs the package {library}", where="RunReader.frame", fix=fix)
    of, rows = rollouts(reader, tokens) if table == "rollouts" else TABLES[table](reader)
    return LIBRARIES[library](of, {column.name: [row.get(column.name) for row in rows] for column in of})


def rollouts(reader: RunReader, tokens: bool = False) -> tuple[list[Column], list[dict[str, Any]]]:
    """One row per rollout; every part of the reward has a column of its own, `part/NAME`."""
    rows = [with_parts(row) for row in rollout_table(reader.records(), tokens)]
    part_names = dict.fromkeys(name for row in rows for name in row if name.startswith("part/"))
    parts = [Column(name, "float", "Value of this part of the reward, before its weight.") for name in part_names]
    return [*(column for column in columns(tokens) if column.name != "parts"), *parts], rows


def with_parts(row: dict[str, Any]) -> dict[str, Any]:
    return row | {f"part/{part['name']}": part["value"] for part in row.pop("parts")}


def metrics(reader: RunReader) -> tuple[list[Column], list[dict[str, Any]]]:
    """One row per step: its metrics, and its wall-clock time in seconds."""
    took = {timing["step"]: timing["seconds"] for timing in reader.timings()}
    steps = [record.step for record in reader.records("step")]
    rows = [
        {"step": step, **body["metrics"], "seconds": took.get(step)}
        for step, body in zip(steps, reader.metrics(), strict=True)
    ]
    return numbers(rows, whole=("step",)), rows


def evaluations(reader: RunReader) -> tuple[list[Column], list[dict[str, Any]]]:
    """One row per evaluation: pass@k with its interval, and the number of rollouts by status as `status/NAME`."""
    rows = []
    for name in ("", *reader.sets):
        for record in reader.evaluations(name):
            body = record.body
            row = {
                "set": name,
                "step": record.step,
                **{key: body[key] for key in ("version", "reward", "length", "truncated")},
            }
            for k, interval in body["pass_at"].items():
                row |= {f"pass@{k}": interval["value"]}
                row |= {f"pass@{k}/{end}": interval[end] for end in ("low", "high", "n")}
            rows.append(row | {f"status/{name}": count for name, count in body["statuses"].items()})
    counts = [name for row in rows for name in row if name.startswith("status/") or name.endswith("/n")]
    numeric = numbers([{key: row[key] for key in row if key != "set"} for row in rows], ("step", "version", *counts))
    return [Column("set", "text", "Evaluation set; empty for the main evaluation."), *numeric], rows


def numbers(rows: Iterable[Mapping[str, Any]], whole: Sequence[str]) -> list[Column]:
    """The columns of rows of numbers. Args: whole: those of integers."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [Column(name, "int" if name in whole else "float", "") for name in names]


TABLES = {"rollouts": rollouts, "metrics": metrics, "evaluations": evaluations}


def pandas_frame(of: Sequence[Column], values: Mapping[str, list[Any]]) -> Any:
    import pandas

    return pandas.DataFrame({c.name: pandas.Series(values[c.name], dtype=PANDAS.get(c.kind, "object")) for c in of})


def polars_frame(of: Sequence[Column], values: Mapping[str, list[Any]]) -> Any:
    import polars

    text, number = polars.String(), polars.Float64()
    types = {
        "int": polars.Int64(),
        "float": number,
        "text": text,
        "flag": polars.Boolean(),
        "messages": polars.List(polars.Struct({"role": text, "content": text})),
        "ints": polars.List(polars.Int64()),
        "floats": polars.List(number),
    }
    return polars.DataFrame(dict(values), schema={column.name: types[column.kind] for column in of})


LIBRARIES = {"pandas": pandas_frame, "polars": polars_frame}
