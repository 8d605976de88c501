"""Observers of a run: a display, alarms, trackers, studies. An observer cannot change the run.

An observer is called after a record is stored, and its arguments are frozen. An observer that raises is reported once
and not called again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from gnomon.store.layout import Record, RunStatus

__all__ = ["EvaluationRecord", "Observer", "Observers", "StepRecord", "freeze"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """A stored step."""

    step: int
    """Counted from 0."""
    metrics: Mapping[str, float]
    """Metrics by name; `gnomon.metrics` describes them."""
    seconds: float
    """Wall-clock time of the step, without its evaluation."""
    records: tuple[Record, ...]
    """Its `task` and `rollout` records; `gnomon.store.decode` makes groups of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRecord:
    """A stored evaluation on held-out tasks."""

    step: int
    """Number of finished steps before the evaluation; 0 for the baseline."""
    result: Mapping[str, Any]
    """`pass_at`, `reward`, `length`, `truncated`, `statuses` and `version`."""
    records: tuple[Record, ...]
    """Its `task` and `held_out` records."""
    set: str = ""
    """The evaluation set; empty for the main evaluation."""


@runtime_checkable
class Observer(Protocol):
    """Receives the events of a run. It is called in the run's thread, which waits for it."""

    def start(self, manifest: Mapping[str, Any]) -> None:
        """Called before the first step of this process.

        Args: manifest: the run's manifest, with `run` (its folder), `uuid`, `settings` and `step` (the next step).
        """
        ...

    def step(self, record: StepRecord) -> None: ...

    def evaluation(self, record: EvaluationRecord) -> None: ...

    def finish(self, status: RunStatus) -> None:
        """Called at the end of the process's part of the run: `finished`, `interrupted` or `failed`."""
        ...


class Observers:
    """Several observers, called in order.

    Args: report: takes a sentence about an observer that raised.
    """

    def __init__(self, observers: Sequence[Observer], report: Callable[[str], None]) -> None:
        self._observers, self._report = list(observers), report

    def start(self, manifest: Mapping[str, Any]) -> None:
        copy = freeze(manifest)
        self._each("start", lambda observer: observer.start(copy))

    def step(self, record: StepRecord) -> None:
        copy = replace(record, metrics=freeze(record.metrics), records=tuple(map(frozen_record, record.records)))
        self._each("step", lambda observer: observer.step(copy))

    def evaluation(self, record: EvaluationRecord) -> None:
        copy = replace(record, result=freeze(record.result), records=tuple(map(frozen_record, record.records)))
        self._each("evaluation", lambda observer: observer.evaluation(copy))

    def finish(self, status: RunStatus) -> None:
        self._each("finish", lambda observer: observer.finish(status))

    def _each(self, what: str, call: Callable[[Observer], None]) -> None:
        for observer in list(self._observers):
            try:
                call(observer)
            except (Exception, SystemExit) as error:
                self._observers = [other for other in self._observers if other is not observer]
                why = f"{type(observer).__name__}.{what} raised {type(error).__name__}: {error}"
                self._report(f"An observer failed and is not called again; the run continues. {why}")


def freeze(value: Any) -> Any:
    """An immutable copy of plain values: read-only mappings, and tuples for lists."""
    if isinstance(value, Mapping):
        return MappingProxyType({key: freeze(each) for key, each in value.items()})
    if isinstance(value, list | tuple):
        return tuple(map(freeze, value))
    return value


def frozen_record(record: Record) -> Record:
    return replace(record, body=freeze(record.body))
