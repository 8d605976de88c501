"""The record of a run as the page writes it: steps, rollouts, evaluations, checkpoints."""

from __future__ import annotations

from array import array
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from gnomon.config import RunConfig
from gnomon.errors import GnomonError
from gnomon.monitoring.alarms import Alarm, Monitor, alarms
from gnomon.monitoring.breakdown import breakdown, entries
from gnomon.rollout.actor import Unjudged
from gnomon.stats import Mean, Stat, Stats, Sum, merge
from gnomon.store import Record, Run, RunReader, RunStatus
from gnomon.training.evaluate import Evaluation
from gnomon.types import Group, Message, Rollout, Stop, Turn

__all__ = ["Recorder", "StepLog", "Watch", "logprobs_of"]


class Watch(Protocol):
    """Somebody who looks on while a run runs. Nothing it does can change the run."""

    def message(self, text: str) -> None: ...

    def progress(self, done: int, total: int) -> None:
        """Replies that are sampled, of those asked for together."""
        ...

    def evaluation(self, step: int, evaluation: Evaluation) -> None: ...

    def step(self, step: int, metrics: Mapping[str, float], seconds: float) -> None:
        """A step was stored; `seconds` are those of its training part, evaluation apart."""
        ...


class Kept(Protocol):
    """A part of a run that goes on from a checkpoint."""

    def save_state(self, folder: Path) -> None: ...

    def load_state(self, folder: Path) -> None: ...


class Recorder:
    """What the page tells a run folder, and where the page starts and stops.

    Set `stop` from a signal handler to end the run after the present step, saved and resumable.
    """

    def __init__(self, store: Run, config: RunConfig, watch: Watch, monitor: Monitor | None = None) -> None:
        self.store, self.config, self.watch = store, config, watch
        self.monitor = monitor or Monitor()
        self.stop = False
        self.at = 0
        """Finished steps."""
        self.spent = 0.0
        """Seconds of the steps taken since this process began."""
        self._saved = -1

    @property
    def complete(self) -> bool:
        """Whether the budget of steps is used up."""
        return self.at >= self.config.budget.steps

    def steps(self, kept: Sequence[Kept]) -> Iterator[int]:
        """The steps to take: from the newest good checkpoint to the end, a signal, or the time limit.

        Args: kept: everything that a checkpoint holds.
        """
        self.at = self._restore(kept)
        while not self.complete and not self.stop and self.spent < self.config.budget.seconds:
            yield self.at
            self.at += 1
        if not self.complete:
            self.save(kept, self.at)
            why = "asked to stop" if self.stop else "time budget used up"
            self.store.set_status(RunStatus.INTERRUPTED, f"{why} after step {self.at}")

    def _restore(self, kept: Sequence[Kept]) -> int:
        checkpoint = self.store.latest_checkpoint()
        for sentence in self.store.skipped:
            self.watch.message(sentence)
        if checkpoint is None:
            return 0
        for part in kept:
            part.load_state(checkpoint.path)
        self.store.rewind(checkpoint.seq)
        with RunReader(self.store.folder) as reader:
            for _ in alarms(reader, self.monitor, before=checkpoint.step):
                pass  # They have rung; what is asked for is that they stay silent from here on.
        self._saved = checkpoint.step
        self.watch.message(f"Going on from the checkpoint of step {checkpoint.step}.")
        return checkpoint.step

    @contextmanager
    def step(self, step: int) -> Iterator[StepLog]:
        """One step; what was logged is stored as a whole when it ends well.

        Where it fails, its rollouts are kept as an attempt, and the chain stays as it was before the step.
        """
        began = monotonic()
        with self._kept(StepLog(step)) as log:
            yield log
        records = log.records()
        self._append(records)
        seconds = monotonic() - began
        self.spent += seconds
        training = monotonic() - log.began
        self.store.time(step, {"seconds": seconds, "training": training})
        for evaluation in log.evaluations:
            self.watch.evaluation(step, evaluation)
        self.watch.step(step, log.metrics(), training)
        for alarm in self.monitor.step(step, records):
            self._ring(alarm)

    def _append(self, records: Sequence[Record]) -> None:
        """Store records, and say so where older ones were given up for them."""
        if attempt := self.store.append(records):
            self.watch.message(
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
            self.watch.message(f"The rollouts of the step that failed: gnomon show {self.store.folder} {place}")

    def _ring(self, alarm: Alarm) -> None:
        """Told, and noted beside the chain; a resumed run repeats steps but does not note an alarm twice."""
        self.watch.message(str(alarm))
        with RunReader(self.store.folder) as reader:
            noted = {(event["name"], event["step"]) for event in reader.alarms()}
        if (alarm.name, alarm.step) not in noted:
            self.store.note("alarm", alarm.body())

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
        for evaluation in log.evaluations:
            self.watch.evaluation(self.at, evaluation)


class StepLog:
    """What one step tells, until it is stored."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.began = monotonic()
        """When the training part of the step began."""
        self.evaluations: list[Evaluation] = []
        self._records: list[Record] = []
        self._groups: Sequence[Group] = ()
        self._advantages: Sequence[float] | None = None
        self._stats: Stats = {}
        self._statuses: dict[str, int] = {}

    def evaluation(self, evaluation: Evaluation) -> None:
        """A measurement on held-out tasks; the one of step 0 is the baseline."""
        self.evaluations.append(evaluation)
        self.began = monotonic()
        self._records += [
            *rollout_records("held_out", self.number, evaluation.groups),
            evaluated(self.number, evaluation),
        ]

    def rollouts(self, groups: Sequence[Group]) -> None:
        """All rollouts of the step, before any is dropped."""
        self._groups = groups

    def advantages(self, advantages: Sequence[float]) -> None:
        """One for each rollout that is trained on, in order; those of spare groups, and of such as nobody could judge,
        have none."""
        self._advantages = advantages
        rollouts = [rollout for group in self._groups for rollout in group.rollouts]
        self._statuses = dict(sorted(Counter(rollout.verdict.status.value for rollout in rollouts).items()))
        self.stats(of_groups(self._groups))
        self.stats(breakdown(entries([group for group in self._groups if group.judged])))

    def stats(self, stats: Mapping[str, Stat]) -> None:
        self._stats = merge(self._stats, dict(stats))

    def metrics(self) -> dict[str, float]:
        return {name: stat.value for name, stat in sorted(self._stats.items())}

    def records(self) -> list[Record]:
        body = {"metrics": self.metrics(), "statuses": self._statuses}
        return [*self.unfinished(), Record(kind="step", step=self.number, body=body)]

    def unfinished(self, error: Exception | None = None) -> list[Record]:
        """What was measured and rolled out so far. Args: error: what ended it, which may carry more rollouts."""
        found = [*self._records, *rollout_records("rollout", self.number, self._groups, self._advantages)]
        if isinstance(error, Unjudged) and not self._groups:
            found += rollout_records("held_out" if error.held_out else "rollout", self.number, error.groups)
        return found


def of_groups(groups: Sequence[Group]) -> Stats:
    """What can be said of a step's rollouts; every rate is per rollout, all_right, all_wrong and spare per group.

    Groups that could not be judged are counted as `failed` and in nothing else.
    """
    stats: Stats = {"failed": Mean(0.0, 0)}
    spare = any(group.spare for group in groups)
    for group in groups:
        stats = merge(stats, {"failed": Mean(not group.judged)})
        if not group.judged:
            continue
        right = [rollout.verdict.correct for rollout in group.rollouts]
        stats = merge(stats, {"all_right": Mean(all(right)), "all_wrong": Mean(not any(right))})
        if spare:
            stats = merge(stats, {"spare": Mean(group.spare)})
        for rollout in group.rollouts:
            one: Stats = {
                "reward": Mean(rollout.reward),
                "correct": Mean(rollout.verdict.correct),
                "length": Mean(rollout.tokens),
                "truncated": Mean(rollout.stop is Stop.TRUNCATED),
                "tokens": Sum(rollout.tokens),
            }
            parts: Stats = {f"part/{part.name}": Mean(part.value) for part in rollout.verdict.parts}
            stats = merge(stats, one | parts)
    return stats


def evaluated(step: int, evaluation: Evaluation) -> Record:
    return Record(kind="evaluation" if step else "baseline", step=step, body=evaluation.body())


def rollout_records(
    kind: str, step: int, groups: Sequence[Group], advantages: Sequence[float] | None = None
) -> Iterator[Record]:
    """A `task` record for every group and one of `kind` for every rollout of it."""
    credit = iter(advantages) if advantages is not None else None
    for group in groups:
        yield Record(kind="task", step=step, task=group.index, body=task_body(kind, group))
        for rollout in group.rollouts:
            body = rollout_body(rollout)
            if credit is not None and group.judged:
                body["advantage"] = 0.0 if group.spare else next(credit)
            yield Record(kind=kind, step=step, task=group.index, sample=rollout.sample, body=body)


def task_body(kind: str, group: Group) -> dict[str, Any]:
    """A task, and the prompt that all its rollouts begin with."""
    opening = next((rollout.turns[0].prompt_ids for rollout in group.rollouts if rollout.turns), ())
    canary = {"canary": True} if group.task.info.get("canary") else {}
    return {
        **canary,
        "of": kind,
        "id": group.task.id,
        "messages": told(group.task.messages),
        "answer": plain(group.task.answer),
        "prompt_ids": list(opening),
    }


def told(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in messages]


def plain(value: Any) -> Any:
    """A value of plain JSON as it is; of anything else only its type, since its text may differ from run to run."""
    return value if isinstance(value, str | int | float | bool | None) else type(value).__name__


def rollout_body(rollout: Rollout) -> dict[str, Any]:
    """A rollout in plain values; log-probabilities as base64 of little-endian float32, exact and short.

    Tokens and log-probabilities are of all its turns, laid end to end. Where there is more than the one turn of the
    task's own prompt, `turns` says what was told before each, and how much of the tokens is its own.
    """
    verdict, turns = rollout.verdict, rollout.turns
    completions = [turn.completion for turn in turns]
    logprobs = array("f", (logp for completion in completions for logp in completion.logprobs))
    body = {
        "reply": rollout.text,
        "token_ids": [token for completion in completions for token in completion.token_ids],
        "logprobs": b64encode(logprobs.tobytes()).decode(),
        "tokens": rollout.tokens,
        "finish": completions[-1].finish.value if turns else "",
        "stop": rollout.stop.value,
        "version": completions[-1].version if turns else -1,
        "reward": verdict.reward,
        "status": verdict.status.value,
        "parts": [{"name": p.name, "value": p.value, "weight": p.weight, "gate": p.gate or ""} for p in verdict.parts],
        "extracted": verdict.extracted or "",
        "span": list(verdict.span or ()),
        "detail": verdict.detail,
    }
    if len(turns) != 1 or rollout.seat:
        body |= {"seat": rollout.seat, "turns": list(turn_bodies(turns))}
    return body


def turn_bodies(turns: Sequence[Turn]) -> Iterator[dict[str, Any]]:
    """What each turn adds to the tokens of the turn before, or of a new sequence, its `fork`."""
    for turn in turns:
        yield {
            "messages": told(turn.messages),
            "given": [[segment.origin.value, list(segment.token_ids)] for segment in turn.given],
            "tokens": len(turn.completion.token_ids),
            "reply": turn.completion.text,
            "finish": turn.completion.finish.value,
            "fork": turn.fork,
        }


def logprobs_of(body: Mapping[str, Any]) -> list[float]:
    """The log-probabilities of a stored rollout."""
    values = array("f")
    values.frombytes(b64decode(body["logprobs"]))
    return list(values)
