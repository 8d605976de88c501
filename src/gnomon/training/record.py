"""The record of a run as the page writes it: steps, evaluations, checkpoints; and where the page starts and stops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Protocol

from gnomon.config import RunConfig
from gnomon.errors import GnomonError
from gnomon.store import EvaluationRecord, Observer, Observers, Record, Run, RunReader, RunStatus, StepRecord
from gnomon.training.step import StepLog

__all__ = ["Recorder", "StepLog"]


def unheard(text: str) -> None:
    """Tells nobody."""


class Kept(Protocol):
    """A part of a run that goes on from a checkpoint."""

    def save_state(self, folder: Path) -> None: ...

    def load_state(self, folder: Path) -> None: ...


class Recorder:
    """Stores what the page does, and shows observers what was stored.

    Set `stop` from a signal handler to end the run after the present step, saved and resumable.

    Args:
        observers: called after each thing is stored.
        tell: takes sentences for a person.
    """

    def __init__(
        self, store: Run, config: RunConfig, observers: Sequence[Observer] = (), tell: Callable[[str], None] = unheard
    ) -> None:
        self.store, self.config, self.tell = store, config, tell
        self.observers = Observers(observers, tell)
        self.stop = False
        self.at = 0
        """Finished steps."""
        self.spent = 0.0
        """Seconds of the steps taken since this process began, observers apart."""
        self._saved, self._ended = -1, False

    @property
    def complete(self) -> bool:
        """Whether the budget of steps is used up."""
        return self.at >= self.config.budget.steps

    def steps(self, kept: Sequence[Kept]) -> Iterator[int]:
        """The steps to take: from the newest good checkpoint to the end, a signal, or the time limit.

        Args: kept: everything that a checkpoint holds.
        """
        self.at = self._restore(kept)
        self._start()
        while not self.complete and not self.stop and self.spent < self.config.budget.seconds:
            yield self.at
            self.at += 1
        if not self.complete:
            self.save(kept, self.at)
            why = "asked to stop" if self.stop else "time budget used up"
            self.store.set_status(RunStatus.INTERRUPTED, f"{why} after step {self.at}")
            self.ended(RunStatus.INTERRUPTED)

    def _restore(self, kept: Sequence[Kept]) -> int:
        checkpoint = self.store.latest_checkpoint()
        for sentence in self.store.skipped:
            self.tell(sentence)
        if checkpoint is None:
            return 0
        for part in kept:
            part.load_state(checkpoint.path)
        self.store.rewind(checkpoint.seq)
        self._saved = checkpoint.step
        self.tell(f"Going on from the checkpoint of step {checkpoint.step}.")
        return checkpoint.step

    def _start(self) -> None:
        with RunReader(self.store.folder) as reader:
            manifest = reader.manifest
        here = {"run": str(self.store.folder), "uuid": self.store.uuid, "step": self.at}
        self.observers.start({**manifest, **here, "settings": self.config.model_dump()})

    @contextmanager
    def step(self, step: int) -> Iterator[StepLog]:
        """One step; what was logged is stored as a whole when it ends well.

        Where it fails, its rollouts are kept as an attempt, and the chain stays as it was before the step.
        """
        began = monotonic()
        with self._kept(StepLog(step)) as log:
            yield log
        self._append(log.records())
        seconds, training = monotonic() - began, monotonic() - log.began
        self.spent += seconds
        self.store.time(step, {"seconds": seconds, "training": training})
        self._show_evaluations(log)
        trained = tuple(log.trained())
        self.observers.step(StepRecord(step=step, metrics=log.metrics(), seconds=training, records=trained))

    def _show_evaluations(self, log: StepLog) -> None:
        for *rollouts, measured in log.evaluations:
            record = EvaluationRecord(step=log.number, result=measured.body, records=tuple(rollouts))
            self.observers.evaluation(record)

    def _append(self, records: Sequence[Record]) -> None:
        """Store records, and say so where older ones were given up for them."""
        if attempt := self.store.append(records):
            self.tell(
                f"This run does not repeat what it recorded: {attempt.why}. The {attempt.records} old records are "
                f"kept as attempt {attempt.number}: gnomon show {self.store.folder}"
            )

    @contextmanager
    def _kept(self, log: StepLog) -> Iterator[StepLog]:
        """Where what follows fails, its rollouts are kept as an attempt."""
        try:
            yield log
        except Exception as error:
            self._keep(log.unfinished(error), error)
            raise

    def _keep(self, records: Sequence[Record], error: Exception) -> None:
        """Keep the rollouts of a failed step. What ended the step matters more than a failure to keep them."""
        if not any(record.kind in ("rollout", "held_out") for record in records):
            return
        with suppress(GnomonError):
            self.store.set_aside(records, str(error).partition("\n")[0])
            last = records[-1]
            place = f"held-out:{last.step}" if last.kind == "held_out" else str(last.step)
            self.tell(f"The rollouts of the step that failed: gnomon show {self.store.folder} {place}")

    def save(self, kept: Sequence[Kept], step: int) -> None:
        """Commit a checkpoint of this many finished steps."""

        def write(folder: Path) -> None:
            for part in kept:
                part.save_state(folder)

        if step != self._saved:
            self.store.commit_checkpoint(step, write, {"step": step}, keep=self.config.save.keep)
            self._saved = step

    @contextmanager
    def finish(self, kept: Sequence[Kept]) -> Iterator[StepLog]:
        """The last checkpoint, the last evaluation, which the caller logs, and the end."""
        # The checkpoint comes first: a run killed between the two repeats the evaluation, and nothing else.
        self.save(kept, self.at)
        with self._kept(StepLog(self.at)) as log:
            yield log
        self._append(log.unfinished())
        self.store.set_status(RunStatus.FINISHED)
        self._show_evaluations(log)
        self.ended(RunStatus.FINISHED)

    def ended(self, status: RunStatus) -> None:
        """Tell the observers, once, what became of the run."""
        if not self._ended:
            self._ended = True
            self.observers.finish(status)
