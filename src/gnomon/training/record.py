"""Record a training run: steps, evaluations, checkpoints; and decide where it starts and stops."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, process_time
from typing import Protocol

import torch

from gnomon.config import RunConfig
from gnomon.errors import GnomonError
from gnomon.rollout.failures import Unjudged
from gnomon.store import EvaluationRecord, Observer, Observers, Record, Run, RunReader, RunStatus, StepRecord
from gnomon.store.layout import is_rollout, set_of
from gnomon.training.step import StepLog

__all__ = ["Recorder", "StepLog", "peak_memory"]


def silent(text: str) -> None:
    """Discards a message."""


class Kept(Protocol):
    """A part of a run with state in checkpoints."""

    def save_state(self, folder: Path) -> None: ...

    def load_state(self, folder: Path) -> None: ...


class Recorder:
    """Stores the records of the training loop, and passes them to observers.

    Set `stop` from a signal handler to end the run after the current step, with a checkpoint.

    Args:
        observers: called after each stored record.
        report: takes messages for the user.
    """

    def __init__(
        self, store: Run, config: RunConfig, observers: Sequence[Observer] = (), report: Callable[[str], None] = silent
    ) -> None:
        self.store, self.config, self.report = store, config, report
        self.observers = Observers(observers, report)
        self.stop = False
        self.at = 0
        """Number of finished steps."""
        self.spent = 0.0
        """Seconds of this process's steps, without observers."""
        self._saved, self._ended = -1, False

    @property
    def complete(self) -> bool:
        """Whether all steps of the budget are done."""
        return self.at >= self.config.budget.steps

    def steps(self, parts: Sequence[Kept]) -> Iterator[int]:
        """Yield the steps to take: from the newest valid checkpoint to the end, a signal, or the time limit.

        Args: parts: those whose state is in checkpoints.
        """
        self.at = self._restore(parts)
        self._start()
        while not self.complete and not self.stop and self.spent < self.config.budget.seconds:
            yield self.at
            self.at += 1
        if not self.complete:
            self.save(parts, self.at)
            why = "asked to stop" if self.stop else "time budget used up"
            self.store.set_status(RunStatus.INTERRUPTED, f"{why} after step {self.at}")
            self.report_end(RunStatus.INTERRUPTED)

    def _restore(self, parts: Sequence[Kept]) -> int:
        checkpoint = self.store.latest_checkpoint()
        for sentence in self.store.skipped:
            self.report(sentence)
        if checkpoint is None:
            return 0
        for part in parts:
            part.load_state(checkpoint.path)
        self.store.rewind(checkpoint.seq)
        self._saved = checkpoint.step
        self.report(f"Continuing from the checkpoint of step {checkpoint.step}.")
        return checkpoint.step

    def _start(self) -> None:
        with RunReader(self.store.folder) as reader:
            manifest = reader.manifest
        here = {"run": str(self.store.folder), "uuid": self.store.uuid, "step": self.at}
        self.observers.start({**manifest, **here, "settings": self.config.model_dump()})

    @contextmanager
    def step(self, step: int) -> Iterator[StepLog]:
        """A context for one step. Its log is stored at once when the step succeeds.

        If it fails, its rollouts are stored as an attempt, and the chain does not change.
        """
        began = monotonic()
        with self._keep_on_failure(StepLog(step)) as log:
            yield log
        self._append(log.records())
        self._settle(step)
        seconds, training = monotonic() - began, monotonic() - log.began
        self.spent += seconds
        times = {"seconds": seconds, "training": training, "cpu_seconds": process_time() - log.began_cpu}
        self.store.time(step, {**times, "peak_bytes": peak_memory()})
        if receipts := log.receipts():
            self.store.note("weights", {"step": step, **receipts})
        self._show_evaluations(log)
        records = tuple(log.records_to_train())
        self.observers.step(StepRecord(step=step, metrics=log.metrics(), seconds=training, records=records))

    def _show_evaluations(self, log: StepLog) -> None:
        for *rollouts, evaluation in log.evaluations:
            records, name = tuple(rollouts), set_of(evaluation.kind)
            record = EvaluationRecord(step=log.number, result=evaluation.body, records=records, set=name)
            self.observers.evaluation(record)

    def _append(self, records: Sequence[Record]) -> None:
        """Store records, and report if older ones were discarded."""
        if attempt := self.store.append(records):
            self.report(
                f"This run does not repeat what it recorded: {attempt.why}. The {attempt.records} old records are "
                f"kept as attempt {attempt.number}: gnomon show {self.store.folder}"
            )

    def _settle(self, step: int) -> None:
        """The episodes of a step are in its records now."""
        if episodes := self.store.unfinished.drop(step):
            self.store.note("continued", {"step": step, "episodes": episodes})

    @contextmanager
    def _keep_on_failure(self, log: StepLog) -> Iterator[StepLog]:
        """A context that stores the rollouts as an attempt if its body fails."""
        try:
            yield log
        except Exception as error:
            if isinstance(error, Unjudged):  # What judged its rollouts will be changed.
                self.store.unfinished.drop(log.number)
            self._keep(log.partial_records(error), error)
            raise

    def _keep(self, records: Sequence[Record], error: Exception) -> None:
        """Store the rollouts of a failed step. A failure to store them does not replace the original error."""
        if not any(is_rollout(record.kind) for record in records):
            return
        with suppress(GnomonError):
            self.store.set_aside(records, str(error).partition("\n")[0])
            last = records[-1]
            address = (
                f"{last.kind.replace('_', '-', 1)}:{last.step}" if last.kind.startswith("held_out") else str(last.step)
            )
            self.report(f"The rollouts of the step that failed: gnomon show {self.store.folder} {address}")

    def save(self, parts: Sequence[Kept], step: int) -> None:
        """Commit a checkpoint of this many finished steps."""

        def write(folder: Path) -> None:
            for part in parts:
                part.save_state(folder)

        if step != self._saved:
            self.store.commit_checkpoint(step, write, {"step": step}, keep=self.config.save.keep)
            self._saved = step

    @contextmanager
    def finish(self, parts: Sequence[Kept]) -> Iterator[StepLog]:
        """A context for the end of the run: writes the last checkpoint; the caller logs the last evaluation."""
        # The checkpoint comes first: a run killed between the two repeats only the evaluation.
        self.save(parts, self.at)
        with self._keep_on_failure(StepLog(self.at)) as log:
            yield log
        self._append(log.partial_records())
        self._settle(log.number)
        self.store.unfinished.clear()
        self.store.set_status(RunStatus.FINISHED)
        self._show_evaluations(log)
        self.report_end(RunStatus.FINISHED)

    def report_end(self, status: RunStatus) -> None:
        """Report the end of the run to the observers, once."""
        if not self._ended:
            self._ended = True
            self.observers.finish(status)


UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes of the unit in which the system reports resident memory."""


def peak_memory() -> int:
    """Largest memory of this process so far, in bytes: of the CUDA devices where they are used, or else resident."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return sum(torch.cuda.max_memory_reserved(device) for device in range(torch.cuda.device_count()))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT
