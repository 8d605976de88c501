"""What became of a prediction: every question resolved, open or void, and scored where it is resolved."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from gnomon.errors import RunError
from gnomon.store import Record, RunReader, RunStatus
from gnomon.store.layout import JOURNAL, PREDICTION
from gnomon.types import Status
from gnomon_lab.predictions.questions import Beats, Interval, Quantiles, Question, Reaches
from gnomon_lab.predictions.register import FAILED, Prediction, read
from gnomon_lab.predictions.scores import brier, interval_score, log_score, pinball
from gnomon_lab.predictions.settings import differences

__all__ = ["Answer", "Scored", "score"]

State = Literal["resolved", "open", "void"]
ATTESTED = "published: the hash equals the one that was seen before the run"
SELF = "self-attested: nobody outside is known to have seen the hash before the run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One question and what became of it."""

    question: Question
    state: State
    why: str = ""
    """Why it is open or void, or what decided it."""
    value: float | None = None
    """The value of the metric that decided it."""
    happened: bool | None = None
    """Whether the event happened, or the interval holds the value; None for quantiles and unresolved questions."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """`brier` and `log`, `interval`, or `pinball`; smaller is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A prediction with the answers to its questions."""

    prediction: Prediction
    sha256: str
    attested: str
    answers: tuple[Answer, ...]

    def mean(self, name: str) -> float | None:
        """Mean of a score over the resolved questions that have it; None where there is none."""
        found = [answer.scores[name] for answer in self.answers if name in answer.scores]
        return math.fsum(found) / len(found) if found else None

    def body(self) -> dict[str, Any]:
        """Everything as JSON values."""
        answers = [
            {
                **{name: value for name, value in asdict(answer).items() if name != "question"},
                **{name: getattr(answer.question, name) for name in ("kind", "sentence", "rule")},
            }
            for answer in self.answers
        ]
        prediction = self.prediction
        facts = {"by": prediction.by, "at": prediction.at, "sha256": self.sha256, "attested": self.attested}
        return {**facts, "answers": answers, "brier": self.mean("brier"), "log": self.mean("log")}


def score(reader: RunReader, seen: str = "") -> Scored | None:
    """The prediction of a run with its scores; None where none was registered.

    Args: seen: the hash that was published before the run, or the published line, as a reader outside has it.
    Raises: RunError E418 for a prediction that is not the registered one, E419 where `seen` is another's.
    """
    path, registered = reader.folder / PREDICTION, reader.prediction
    if not registered and not path.exists():
        return None
    prediction, found = read(path)
    if found != registered:
        added = "the run began without a prediction" if not registered else f"the run began with {registered}"
        what = f"{PREDICTION} was {'changed' if registered else 'added'} after the run began"
        fix = "restore the file that was registered" if registered else f"rm {path}"
        raise RunError("E418", what, where=str(reader.folder), why=f"its SHA-256 is {found}, and {added}", fix=fix)
    if seen and found not in seen:
        raise RunError(
            "E419", "the prediction is not the one that was published", where=str(path),
            why=f"its SHA-256 is {found}, which does not occur in {seen!r}",
            fix="compare both with the file that was registered: sha256sum prediction.json",
        )  # fmt: skip
    why = setting_changes(prediction, reader)
    answers = tuple(
        Answer(question=question, state="void", why=why) if why else answer(question, reader)
        for question in prediction.questions
    )
    return Scored(prediction=prediction, sha256=found, attested=ATTESTED if seen else SELF, answers=answers)


def setting_changes(prediction: Prediction, reader: RunReader) -> str:
    """How the run differs from the settings that the prediction names; empty where it does not."""
    found = differences(prediction.settings, tomllib.loads(reader.recipe))
    return "; ".join(f"{key} is {has!r} and the prediction names {value!r}" for key, (value, has) in found.items())


def answer(question: Question, reader: RunReader) -> Answer:
    match question:
        case Interval() | Quantiles():
            return final(question, reader)
        case Reaches():
            return answer_reaches(question, reader)
        case Beats():
            return beaten(question, reader)


def final(question: Interval | Quantiles, reader: RunReader) -> Answer:
    """Of a metric at the end."""
    if why := why_unfinished(reader):
        return Answer(question=question, state="open", why=why)
    found = evaluations(reader, question.metric)
    if why := why_undecided(found[-1], question.metric) if found else "the run has no such evaluation set":
        return Answer(question=question, state="void", why=why)
    last = found[-1]
    value = metric_value(last.body, question.metric)
    assert value is not None
    if isinstance(question, Quantiles):
        scores = {"pinball": pinball(question.levels, value)}
        return Answer(question=question, state="resolved", value=value, scores=scores)
    scores = {"interval": interval_score(question.low, question.high, question.level, value)}
    inside = question.low <= value <= question.high
    return Answer(question=question, state="resolved", value=value, happened=inside, scores=scores)


def answer_reaches(question: Reaches, reader: RunReader) -> Answer:
    """Of a value by a step."""
    steps = tomllib.loads(reader.recipe)["budget"]["steps"]
    if steps < question.step:
        return Answer(question=question, state="void", why=f"the run has {steps} steps")
    inside = [record for record in evaluations(reader, question.metric) if 1 <= (record.step or 0) <= question.step]
    for record in inside:
        value = metric_value(record.body, question.metric)
        if value is not None and value >= question.value and not why_undecided(record, question.metric):
            return event(question, question.probability, True, value, f"after step {record.step}")
    if reader.steps <= question.step and (why := why_unfinished(reader)):
        return Answer(question=question, state="open", why=why)
    if not inside:
        return Answer(question=question, state="void", why=f"no evaluation after 1 to {question.step} steps")
    for record in inside:
        if why := why_undecided(record, question.metric):
            return Answer(question=question, state="void", why=why)
    best = max(metric_value(record.body, question.metric) or 0.0 for record in inside)
    return event(question, question.probability, False, best, "the largest value")


def beaten(question: Beats, reader: RunReader) -> Answer:
    """Of two runs, compared at their ends."""
    folder = reader.folder / question.other
    if not (folder / JOURNAL).exists():
        return Answer(question=question, state="open", why=f"{folder} holds no run")
    with RunReader(folder) as other:
        if question.uuid and other.uuid != question.uuid:
            return Answer(question=question, state="void", why=f"{folder} holds another run than was registered")
        if why := why_unfinished(reader) or why_unfinished(other):
            return Answer(question=question, state="open", why=why)
        if why := unlike(reader.genesis, other.genesis):
            return Answer(question=question, state="void", why=why)
        last = [evaluations(each)[-1] for each in (reader, other)]
    for record in last:
        if why := why_undecided(record, "pass@1"):
            return Answer(question=question, state="void", why=why)
    ours, theirs = (metric_value(record.body, "pass@1") or 0.0 for record in last)
    if ours == theirs:
        return Answer(question=question, state="void", why=f"both end with {ours:.3f}", value=ours)
    return event(question, question.probability, ours > theirs, ours, f"the other ended with {theirs:.3f}")


def event(question: Question, probability: float, happened: bool, value: float, why: str) -> Answer:
    scores = {"brier": brier(probability, happened), "log": log_score(probability, happened)}
    return Answer(question=question, state="resolved", why=why, value=value, happened=happened, scores=scores)


def evaluations(reader: RunReader, metric: str = "") -> list[Record]:
    """The evaluations that measure a metric, in order; `step` is the number of finished steps, 0 for the baseline."""
    return reader.evaluations(metric.rpartition("/")[0])


def why_unfinished(reader: RunReader) -> str:
    """Why a run decides nothing yet; empty for a finished run."""
    status = reader.status
    return (
        "" if status is RunStatus.FINISHED else f"{reader.folder.resolve().name} is {status} after {reader.steps} steps"
    )


def why_undecided(record: Record, metric: str) -> str:
    """Why an evaluation decides nothing; empty where it does."""
    statuses: Mapping[str, int] = record.body["statuses"]
    failed, total = statuses.get(Status.FAILED, 0), sum(statuses.values())
    if total and failed / total > FAILED:
        return f"the verifier failed on {failed} of {total} held-out rollouts"
    return "" if metric_value(record.body, metric) is not None else f"the run did not measure {metric}"


def metric_value(body: Mapping[str, Any], metric: str) -> float | None:
    """The value of a metric in an evaluation; None where it was not measured."""
    metric = metric.rpartition("/")[2]
    if metric.startswith("pass@"):
        found = body["pass_at"].get(metric.removeprefix("pass@"))
        return None if found is None else float(found["value"])
    return float(body[metric])


def unlike(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """Why the evaluations of two runs cannot be compared; empty where they can."""
    config, other = ours["config"], theirs["config"]
    pairs: Sequence[tuple[str, Any, Any]] = [
        ("env", config.get("env"), other.get("env")),
        *((f"eval.{name}", config["eval"][name], other["eval"][name]) for name in ("tasks", "samples")),
    ]
    wrong = [name for name, one, two in pairs if one != two]
    return f"the runs differ in {', '.join(wrong)}" if wrong else ""


def scored_below(folder: Path) -> Iterator[tuple[Path, Scored | str]]:
    """Every run below a folder that has a prediction, and its scores, or why it has none."""
    for path in sorted(folder.rglob(PREDICTION)):
        if not (path.parent / JOURNAL).exists():
            yield path.parent, "the run has not begun"
            continue
        try:
            with RunReader(path.parent) as reader:
                found = score(reader)
        except RunError as error:
            yield path.parent, error.what
            continue
        if found is not None:
            yield path.parent, found
