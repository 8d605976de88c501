"""An observer that hands a run to an experiment tracker, in a thread of its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Thread
from time import monotonic
from typing import Any, Protocol

from gnomon.store import EvaluationRecord, Record, RunStatus, StepRecord
from gnomon.store.codec import text_of

__all__ = ["Sample", "Sink", "TrackedRun", "Tracker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedRun:
    """What a tracker is started with."""

    name: str
    """Name of the run folder."""
    folder: Path
    uuid: str
    """Equal for all processes that resume the run."""
    step: int
    """At which the run goes on; 0 for a new one."""
    settings: Mapping[str, Any]
    """By dotted key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A held-out rollout as text."""

    task: int
    sample: int
    status: str
    reward: float
    prompt: str
    reply: str


class Sink(Protocol):
    """A tracker. All four methods are called in one thread, which is not the run's."""

    def start(self, run: TrackedRun) -> None: ...

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Metrics of a step, or of an evaluation, whose names begin with `held_out/`.

        A resumed run logs the steps after its checkpoint again.
        """
        ...

    def texts(self, step: int, samples: list[Sample]) -> None:
        """The first rollouts of an evaluation."""
        ...

    def finish(self, status: str) -> None: ...


class Tracker:
    """An observer that puts what happens into a queue, which a thread of its own empties into a sink.

    If the queue is full, new values are dropped, and a warning says so once. If the sink raises an exception, the
    next call raises it: a run reports that once and goes on without this observer.

    Args:
        texts: number of rollouts to show after each evaluation.
        waiting: size of the queue.
        patience: seconds that the end of a run waits for the sink.
    """

    def __init__(self, sink: Sink, *, texts: int = 8, waiting: int = 1000, patience: float = 30.0) -> None:
        self.sink, self.shown, self.patience = sink, texts, patience
        self.dropped = 0
        """Number of values that were dropped so far."""
        self._calls: Queue[Callable[[], None] | None] = Queue(waiting)
        self._error: BaseException | None = None
        self._thread = Thread(target=self._work, name=self.name, daemon=True)

    @property
    def name(self) -> str:
        return f"tracker {type(self.sink).__name__}"

    def start(self, manifest: Mapping[str, Any]) -> None:
        folder = Path(manifest["run"])
        facts = {name: manifest[name] for name in ("uuid", "step")}
        run = TrackedRun(name=folder.name, folder=folder, settings=flat(manifest["settings"]), **facts)
        self._thread.start()
        self._put(lambda: self.sink.start(run))

    def step(self, record: StepRecord) -> None:
        values = {**record.metrics, "seconds": record.seconds}
        self._put(lambda: self.sink.log(record.step, values))

    def evaluation(self, record: EvaluationRecord) -> None:
        values = evaluation_values(record.result, record.set)
        self._put(lambda: self.sink.log(record.step, values))
        if self.shown and not record.set and (texts := samples(record.records, self.shown)):
            self._put(lambda: self.sink.texts(record.step, texts))

    def finish(self, status: RunStatus) -> None:
        end = monotonic() + self.patience
        try:
            self._calls.put(lambda: self.sink.finish(status.value), timeout=self.patience)
            self._calls.put(None, timeout=max(0.0, end - monotonic()))
            self._thread.join(max(0.0, end - monotonic()))
        except Full:
            pass
        self._require()
        if self._thread.is_alive():
            raise TimeoutError(f"{self.name} has not finished after {self.patience:g} s")

    def _put(self, call: Callable[[], None]) -> None:
        self._require()
        try:
            self._calls.put_nowait(call)
        except Full:
            self.dropped += 1
            if self.dropped == 1:
                warnings.warn(f"{self.name} is slower than the run: some values are dropped", stacklevel=2)

    def _require(self) -> None:
        """Raises: what the sink raised."""
        if self._error is not None:
            raise RuntimeError(f"{self.name} raised {type(self._error).__name__}: {self._error}") from self._error

    def _work(self) -> None:
        try:
            while (call := self._calls.get()) is not None:
                call()
        except BaseException as error:
            self._error = error
            self._empty()

    def _empty(self) -> None:
        """Let go of what waits, so that the end of a run need not wait for room."""
        try:
            while True:
                self._calls.get_nowait()
        except Empty:
            return


def flat(settings: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Settings by dotted key, as values that JSON has: trackers write them so."""
    result: dict[str, Any] = {}
    for key, value in settings.items():
        nested = isinstance(value, Mapping) and value
        result |= flat(value, f"{above}{key}.") if nested else {above + key: plain(value)}
    return result


def plain(value: Any) -> Any:
    """A value whose read-only mappings and sequences, at any depth, are dicts and lists."""
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def evaluation_values(result: Mapping[str, Any], name: str = "") -> dict[str, float]:
    """The numbers of an evaluation, by names that every tracker allows: `held_out/…`, of a set `held_out/SET/…`."""
    above = f"held_out/{name}" if name else "held_out"
    values = {f"{above}/{name}": result[name] for name in ("reward", "length", "truncated")}
    for k, interval in result["pass_at"].items():
        values |= {f"{above}/pass_at_{k}": interval["value"]}
        values |= {f"{above}/pass_at_{k}_{end}": interval[end] for end in ("low", "high")}
    return values | {f"{above}/status/{name}": count for name, count in result["statuses"].items()}


def samples(records: Iterable[Record], most: int) -> list[Sample]:
    """The first rollouts among records, as text."""
    result: list[Sample] = []
    prompt = ""
    for record in records:
        if record.kind == "task":
            prompt = "\n".join(map(text_of, record.body["messages"]))
        elif len(result) < most and record.task is not None and record.sample is not None:
            facts = {name: record.body[name] for name in ("status", "reward", "reply")}
            result.append(Sample(task=record.task, sample=record.sample, prompt=prompt, **facts))
    return result
