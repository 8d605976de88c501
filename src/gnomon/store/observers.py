"""Observers of a run: a display, alarms, trackers, studies. Nothing that they do can change the run.

An observer is called after a record is stored, so it cannot change the record. Its arguments are frozen.
One that raises is reported once and left out from there on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from gnomon.store.layout import Record, RunStatus

__all__ = ["EvaluationRecord", "Observer", "Observers", "StepRecord", "frozen"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """A step as it was stored."""

    step: int
    """Counted from 0."""
    metrics: Mapping[str, float]
    """By name; `gnomon.metrics` says what each means."""
    seconds: float
    """Wall-clock time of the step, without its evaluation."""
    records: tuple[Record, ...]
    """Its `task` and `rollout` records; `gnomon.store.decode` makes groups of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRecord:
    """A measurement on held-out tasks as it was stored."""

    step: int
    """Finished steps behind the weights that were measured; 0 for the baseline."""
    result: Mapping[str, Any]
    """`pass_at`, `reward`, `length`, `truncated`, `statuses` and `version`."""
    records: tuple[Record, ...]
    """Its `task` and `held_out` records."""


@runtime_checkable
class Observer(Protocol):
    """Looks on while a run runs. It is called in the thread of the run, which waits for it."""

    def start(self, manifest: Mapping[str, Any]) -> None:
        """Before the first step of this process.

        Args: manifest: that of the run, and `run`, its folder; `uuid`; `settings`; `step`, at which it goes on.
        """
        ...

    def step(self, record: StepRecord) -> None: ...

    def evaluation(self, record: EvaluationRecord) -> None: ...

    def finish(self, status: RunStatus) -> None:
        """The run has ended in this process: it is `finished`, `interrupted` or `failed`."""
        ...


class Observers:
    """Several observers, called one after the other.

    Args: tell: takes a sentence about an observer that was left out.
    """

    def __init__(self, observers: Sequence[Observer], tell: Callable[[str], None]) -> None:
        self._observers, self._tell = list(observers), tell

    def start(self, manifest: Mapping[str, Any]) -> None:
        given = frozen(manifest)
        self._each("start", lambda observer: observer.start(given))

    def step(self, record: StepRecord) -> None:
        given = replace(record, metrics=frozen(record.metrics), records=tuple(map(frozen_record, record.records)))
        self._each("step", lambda observer: observer.step(given))

    def evaluation(self, record: EvaluationRecord) -> None:
        given = replace(record, result=frozen(record.result), records=tuple(map(frozen_record, record.records)))
        self._each("evaluation", lambda observer: observer.evaluation(given))

    def finish(self, status: RunStatus) -> None:
        self._each("finish", lambda observer: observer.finish(status))

    def _each(self, what: str, call: Callable[[Observer], None]) -> None:
        for observer in list(self._observers):
            try:
                call(observer)
            except (Exception, SystemExit) as error:
                self._observers = [other for other in self._observers if other is not observer]
                why = f"{type(observer).__name__}.{what} raised {type(error).__name__}: {error}"
                self._tell(f"An observer failed and is left out from here on; the run goes on. {why}")


def frozen(value: Any) -> Any:
    """Plain values that nobody can change: mappings are read-only and lists are tuples."""
    if isinstance(value, Mapping):
        return MappingProxyType({key: frozen(each) for key, each in value.items()})
    if isinstance(value, list | tuple):
        return tuple(map(frozen, value))
    return value


def frozen_record(record: Record) -> Record:
    return replace(record, body=frozen(record.body))
