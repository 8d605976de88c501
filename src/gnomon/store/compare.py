"""Compare two runs or two records: the first difference and its values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from gnomon.store.layout import EXTENSION, Record, canonical, unpack
from gnomon.store.reader import RunReader

__all__ = ["ABSENT", "Difference", "Parting", "diff", "differences", "flat", "shorten", "unequal"]

ABSENT = "(absent)"
"""Shown for a key that only the other side has."""

WIDTH = 60
"""Largest number of characters shown of a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """The first record in which two runs differ."""

    seq: int
    record: str
    """Description of the record; of both records if their kinds or places differ."""
    a: Record | None
    """None if run `a` has ended."""
    b: Record | None
    values: Mapping[str, tuple[str, str]]
    """Body key (nested keys dotted) → both values, shortened to the first difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The differences of two runs. Falsy if there are none."""

    a: Path
    b: Path
    config: Mapping[str, tuple[Any, Any]]
    """Key of the genesis record (nested keys dotted) → both values."""
    parted: Parting | None
    """First difference after the genesis record."""
    metrics: Mapping[str, tuple[Any, Any]]
    """Metric of the last step → both values."""
    held_out: Mapping[str, tuple[Any, Any]]
    """Result of the last held-out evaluation (nested keys dotted) → both values."""

    def __bool__(self) -> bool:
        return bool(self.config or self.parted)

    def __str__(self) -> str:
        if not self:
            return f"{self.a} and {self.b} are the same run, record by record"
        lines = [f"config   {key}: {a} | {b}" for key, (a, b) in self.config.items()]
        if self.parted:
            lines.append(f"parted   at record {self.parted.seq}: {self.parted.record}")
            lines += [f"         {key}: {a} | {b}" for key, (a, b) in self.parted.values.items()]
        else:
            lines.append("records  equal: the runs differ in their settings alone")
        lines += [f"metric   {key}: {both(*values)}" for key, values in self.metrics.items()]
        lines += [f"held-out {key}: {both(*values)}" for key, values in self.held_out.items()]
        return "\n".join([f"A is {self.a}, B is {self.b}", *lines])


def diff(a: Path | str, b: Path | str) -> Difference:
    """Compare two runs: their configurations, the first record that differs, and their last metrics.

    Raises: RunError E404 if a folder is not a run, E405 if a record cannot be read.
    """
    with RunReader(a) as one, RunReader(b) as two:
        last = [(reader.metrics() or [{}])[-1] for reader in (one, two)]
        return Difference(
            a=one.folder,
            b=two.folder,
            config=unequal(one.genesis, two.genesis),
            parted=_part(one, two),
            metrics=unequal(*last),
            held_out=unequal(*map(_result, (one, two))),
        )


def _result(reader: RunReader) -> dict[str, Any]:
    """What the last held-out evaluation found: `pass@1` and the like, and the mean length."""
    body = reader.held_out or {}
    rates = {f"pass@{k}": interval["value"] for k, interval in body.get("pass_at", {}).items()}
    return rates | ({"length": body["length"]} if "length" in body else {})


def both(a: Any, b: Any) -> str:
    """Two values beside each other; of two numbers the difference too."""
    if not (isinstance(a, float | int) and isinstance(b, float | int)):
        return f"{a} | {b}"
    return f"{a:.6g} | {b:.6g}   B − A {b - a:+.4g}"


def _part(one: RunReader, two: RunReader) -> Parting | None:
    pairs = zip_longest(*((row for row in reader.rows(1) if row[1] != EXTENSION) for reader in (one, two)))
    for a, b in pairs:  # An extension says only which settings changed when.
        # Hashes differ from the first different config key on, so records are compared by place and body.
        if a and b and a[1:7] == b[1:7]:
            continue
        left, right = (unpack(row)[0] if row else None for row in (a, b))
        values = differences(left, right) if left and right else {}
        if left and right and not values:
            continue
        places = [record.place if record else "the run has ended" for record in (left, right)]
        return Parting(seq=(a or b)[0], record=" | ".join(dict.fromkeys(places)), a=left, b=right, values=values)
    return None


def differences(a: Record, b: Record) -> dict[str, tuple[str, str]]:
    """The differences of two records: their place first, then every body key, with shortened values."""
    names = ("kind", "step", "task", "sample")
    identity = {name: (getattr(a, name), getattr(b, name)) for name in names if getattr(a, name) != getattr(b, name)}
    return {name: shorten(*pair) for name, pair in (identity | unequal(a.body, b.body)).items()}


def unequal(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Every dotted key under which two bodies differ, with both values."""
    left, right = dict(flat(a)), dict(flat(b))
    pairs = {name: (left.get(name, ABSENT), right.get(name, ABSENT)) for name in sorted(left.keys() | right.keys())}
    return {name: (x, y) for name, (x, y) in pairs.items() if canonical(x) != canonical(y)}


def flat(body: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values of a nested body. Lists are values."""
    for key, value in body.items():
        name = f"{path}.{key}" if path else key
        if isinstance(value, Mapping) and value:
            yield from flat(value, name)
        else:
            yield name, value


def shorten(a: Any, b: Any) -> tuple[str, str]:
    """Two values as text of at most `WIDTH` characters, from shortly before the first difference."""
    texts = [
        value if value == ABSENT else json.dumps(json.loads(canonical(value)), ensure_ascii=False) for value in (a, b)
    ]
    if max(map(len, texts)) <= WIDTH:
        return texts[0], texts[1]
    first = next((i for i, (x, y) in enumerate(zip(*texts, strict=False)) if x != y), min(map(len, texts)))
    start = max(0, first - WIDTH // 3)
    cut = [text[start : start + WIDTH - 2] for text in texts]
    left, right = (
        ("…" if start else "") + piece + ("…" if start + len(piece) < len(text) else "")
        for piece, text in zip(cut, texts, strict=True)
    )
    return left, right
