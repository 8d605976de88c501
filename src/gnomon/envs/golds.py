"""The reference answers of a data set: the verifier reads each one before a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gnomon.envs.row_checks import Placed, number_rows
from gnomon.errors import ConfigError, GnomonError
from gnomon.verifiers.extract import MAX_SLOT
from gnomon.verifiers.slot import require_shallow

if TYPE_CHECKING:
    from gnomon.envs.dataset import Dataset

__all__ = ["reference", "refuse_unreadable", "require_earnable"]

READINGS: tuple[dict[str, str], ...] = (
    {"thousands": ","}, {"units": "optional"}, {"percent": "share"},
    {"thousands": ",", "units": "optional", "percent": "share"},
)  # fmt: skip
"""Options of the verifier `number` under which it reads more."""


def reference(value: Any) -> Any:
    """The reference answer in a cell: a text, several texts, or a mapping. Raises: ValueError for a missing value."""
    if callable(getattr(value, "tolist", None)):  # An array or a scalar of numpy.
        value = value.tolist()
    require_shallow(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple):
        if not value:
            raise ValueError("the list of answers is empty")
        return [text_of(each) for each in value]
    return text_of(value)


def text_of(value: Any) -> str:
    """A value as the text of an answer. Raises: ValueError for one that is missing."""
    if value is None or value == "" or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"{value!r} is a missing value and not an answer")
    text = str(value)
    if not text.strip():
        raise ValueError(f"{text!r:.60} is blank, and an empty answer is never correct")
    return text


def require_earnable(env: Dataset, text: str) -> None:
    """See that a reply with this reference answer in its slot has that answer. Raises: ValueError."""
    if "<" not in text and len(text) <= MAX_SLOT:
        return
    extraction = env.extract(env.framed(text))
    if extraction.text is None:
        raise ValueError(f"no reply can match the answer {text!r:.60}: {extraction.detail or extraction.status}")


def refuse_unreadable(env: Dataset, source: str, rows: Placed) -> None:
    """Raises: ConfigError E153, with row numbers, if the verifier cannot read reference answers.

    Args: source: of the rows, for the error.
    """
    problems, readable = list[tuple[int, Exception]](), set[str]()
    for index, row in rows:
        try:
            if (text := repr(gold := env.gold(row, index))) not in readable:
                env.require_gold(gold)
                readable.add(text)
        except ConfigError:
            raise
        except Exception as error:  # A verifier of the user's may raise anything.
            problems.append((index, error))
    if problems:
        index, first = problems[0]
        why = str(first) if isinstance(first, ValueError) else f"{type(first).__name__}: {first}"
        raise ConfigError(
            "E153", f"the verifier {env.verifier!r} cannot read {len(problems)} of {len(rows)} reference answers",
            where=f"{source}, column {env.answer!r}, {number_rows([index for index, _ in problems])}",
            why=f"row {index}: {why}", fix=next(remedies(env, rows), "correct or remove these rows"),
        )  # fmt: skip


def remedies(env: Dataset, rows: Placed) -> Iterator[str]:
    """Settings under which every reference answer can be read."""
    for options in env.other_readings:
        if reads(replace(env, **options), rows):
            yield " ".join(f"env.{name}={value}" for name, value in options.items())
    if env.verifier == "number":
        for options in READINGS:
            if reads(replace(env, options={**env.options, **options}), rows):
                yield " ".join(f"env.options.{name}={value}" for name, value in options.items())
    for name in ("math", "text"):
        if name != env.verifier and reads(replace(env, verifier=name, options={}), rows):
            yield f"env.verifier={name}" + " 'env.options={}'" * bool(env.options)


def reads(env: Dataset, rows: Sequence[tuple[int, Mapping[str, Any]]]) -> bool:
    """Whether the verifier of a data set reads all reference answers."""
    try:
        for index, row in rows:
            env.require_gold(env.gold(row, index))
    except (ValueError, GnomonError):
        return False
    return True
