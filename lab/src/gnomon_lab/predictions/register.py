"""Register a prediction: a file in the folder of a run that has not begun."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from gnomon.errors import ConfigError, ConfigErrors, RunError
from gnomon.store import RunReader, require_free
from gnomon.store.journal import write_durably
from gnomon.store.layout import JOURNAL, PREDICTION
from gnomon_lab.predictions.questions import Beats, Model, Question, impossible

__all__ = ["VOID", "Prediction", "questions_of", "read", "register"]

FAILED = 0.05
"""Fraction of the held-out rollouts that may fail to be judged before an evaluation decides nothing."""
VOID = (
    "A question is void where its rule says so, where the run differs from `settings`, and where the verifier failed "
    f"on more than {FAILED:.0%} of the held-out rollouts. It stays open while the run has not finished."
)
QUESTIONS: TypeAdapter[list[Question]] = TypeAdapter(Annotated[list[Question], Field(min_length=1)])


class Prediction(Model):
    """What somebody expects of a run, as it was registered."""

    format: Literal[1] = 1
    by: Annotated[str, Field(min_length=1)]
    at: str
    """When it was registered, by the clock of the machine (UTC)."""
    run: str
    """Name of the run folder."""
    settings: dict[str, Any]
    """Settings that the run must have, by their full keys."""
    questions: list[Question]
    rules: list[str]
    """How each question is decided."""
    void: str
    salt: str
    """Random, so that nobody finds the prediction by hashing guesses."""


def register(
    folder: Path, questions: list[dict[str, Any]], *, by: str, settings: Mapping[str, Any]
) -> tuple[Prediction, str]:
    """Write a prediction into the folder of a run that has not begun.

    Returns: the prediction, and the SHA-256 of its file.
    Raises: ConfigErrors E080 for a question that cannot be decided; RunError E415 where there is a prediction, E416
        where the run has begun, E401 where the folder holds something else.
    """
    asked = [locate(question, folder) for question in questions_of(questions)]
    path = folder / PREDICTION
    if (folder / JOURNAL).exists():
        raise RunError(
            "E416", "the run has begun", where=str(folder),
            why="a prediction is part of the first record, so it is registered before the run",
            fix="register it for another folder: gnomon predict runs/OTHER …",
        )  # fmt: skip
    if path.exists():
        raise RunError(
            "E415", "there is a prediction for this run", where=str(path),
            why="a prediction that was published is not replaced silently", fix=f"rm {shlex.quote(str(path))}",
        )  # fmt: skip
    require_free(folder)
    made = Prediction(
        by=by,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        run=folder.resolve().name,
        settings=dict(settings),
        questions=asked,
        rules=[question.rule for question in asked],
        void=VOID,
        salt=token_hex(16),
    )
    data = (json.dumps(made.model_dump(), indent=1) + "\n").encode()
    folder.mkdir(parents=True, exist_ok=True)
    write_durably(path, data)
    return made, sha256(data).hexdigest()


def questions_of(values: list[dict[str, Any]]) -> list[Question]:
    """Questions as plain values. Raises: ConfigErrors E080 with every mistake."""
    try:
        found = QUESTIONS.validate_python(values)
    except ValidationError as error:
        raise ConfigErrors([mistaken(dict(item)) for item in error.errors()]) from error
    reasons = {place: why for place, question in enumerate(found) if (why := impossible(question))}
    if reasons:
        raise ConfigErrors([mistaken({"loc": (place,), "type": "", "msg": why}) for place, why in reasons.items()])
    return found


def mistaken(item: Mapping[str, Any]) -> ConfigError:
    """A mistake in a question, with its place among the questions and its key."""
    number, *keys = [part for part in item["loc"] if part not in KINDS] or [-1]
    where = f"question {int(number) + 1}" + "".join(f", {key}" for key in keys) if number >= 0 else ""
    fix = "gnomon predict RUN --pass-at-1 0.5:0.7 --reaches 0.5@40=0.7   # docs/lab/predict.md lists all questions"
    what = (
        "there is no question"
        if item["type"] == "too_short"
        else f"a question cannot be read: {item['msg'].removeprefix('Value error, ')}"
    )
    return ConfigError("E080", what, where=where, fix=fix)


KINDS = {"interval", "quantiles", "reaches", "beats"}


def locate(question: Question, folder: Path) -> Question:
    """The question with the other run's folder relative to this run's, and its identity where it has begun."""
    if not isinstance(question, Beats):
        return question
    other, uuid = Path(question.other), ""
    if (other / JOURNAL).exists():
        with RunReader(other) as reader:
            uuid = reader.uuid
    relative = os.path.relpath(other.resolve(), folder.resolve())
    return question.model_copy(update={"other": Path(relative).as_posix(), "uuid": uuid})


def read(path: Path) -> tuple[Prediction, str]:
    """A prediction and the SHA-256 of its file. Raises: RunError E417 where it cannot be read."""
    try:
        data = path.read_bytes()
        return Prediction.model_validate(json.loads(data)), sha256(data).hexdigest()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error).partition("\n")[0]
        fix = "restore the file that was registered"
        raise RunError("E417", "the prediction cannot be read", where=str(path), why=why or "", fix=fix) from error
