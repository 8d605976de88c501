"""What the doctor reads of a run: its rollouts in groups, its tasks, metrics and recipe."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from gnomon.config import leaves
from gnomon.models.hub import at_commits
from gnomon.monitoring.alarms import Alarm, alarms
from gnomon.monitoring.endings import Ending, ending
from gnomon.monitoring.programs import faults
from gnomon.store import Record, RunReader
from gnomon.store.codec import verdict_of
from gnomon.types import Calls, Kind, Status, Verdict

__all__ = ["END", "Evidence", "Group", "RecordedRollout", "evidence_of"]

STEPS = 60
"""Most steps that are read: the first ones, the last ones, and some between them."""
END = 5
"""Steps at the end of a run that are compared with its start."""
ALARMS = 400
"""Most steps for which alarms are computed again. Of a longer run, those are taken that were noted while it ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRollout:
    """A rollout."""

    address: str
    """As `gnomon show RUN` takes it."""
    step: int
    task: int
    reply: str
    tokens: int
    version: int
    """Of the weights that sampled its last completion."""
    ending: Ending
    stop: str
    """Why it stopped, as its record says; empty where a log of another trainer does not."""
    turns: int
    faults: frozenset[str]
    """Of its program, by their names in `FAULTS`."""
    malformed_call: bool
    """Whether the environment's tools got a call that could not be read."""
    verdict: Verdict
    advantage: float | None
    """None where the record holds none."""
    spare: bool
    """Whether its group was sampled and not trained on."""

    @property
    def reward(self) -> float:
        return self.verdict.reward

    @property
    def right(self) -> bool:
        return self.verdict.correct

    @property
    def judged(self) -> bool:
        return self.verdict.status.kind not in (Kind.FAILED, Kind.UNJUDGED)

    @property
    def cut(self) -> bool:
        """Whether a limit ended it."""
        return self.ending in (Ending.TRUNCATED, Ending.ENDLESS, Ending.LIMITED)

    @property
    def failed(self) -> bool:
        return self.verdict.status is Status.FAILED


Group = tuple[RecordedRollout, ...]
"""The rollouts of one task in one step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was read of a run."""

    run: str
    status: str
    reason: str
    steps: int
    """Finished steps; those that were read may be fewer."""
    groups: tuple[Group, ...]
    """Of training, in order."""
    held_out: tuple[Group, ...]
    """Of the evaluations, in order."""
    tasks: Mapping[tuple[str, int], Mapping[str, Any]]
    """Bodies of the task records, by split (`train`, `test`) and index."""
    metrics: tuple[tuple[int, Mapping[str, float]], ...]
    """Of every finished step, with its number."""
    recipe: Mapping[str, Any]
    """Settings by their full keys."""
    tier: str
    alarms: tuple[Alarm, ...]
    train_tasks: tuple[tuple[str, str], ...] = ()
    """Id and prompt of tasks of the train split beyond those that were drawn, where the environment could be made."""

    @property
    def start(self) -> tuple[Group, ...]:
        """The groups that the first weights sampled: of the first step, and of the evaluation before it.

        Other trainers count from 1. A log that begins later has none.
        """
        first = 1 if self.read and self.read[0] == 1 else 0
        return tuple(group for group in (*self.groups, *self.held_out) if group[0].step <= first)

    @property
    def end(self) -> tuple[Group, ...]:
        """The groups of training in the last steps; empty in a run that is too short for a comparison."""
        if len(self.read) <= END:
            return ()
        return tuple(group for group in self.groups if group[0].step in self.read[-END:])

    @property
    def read(self) -> tuple[int, ...]:
        """Steps whose groups of training were read."""
        return tuple(dict.fromkeys(group[0].step for group in self.groups))

    def series(self, name: str) -> list[float]:
        """A metric in every step that has it."""
        return [metrics[name] for _, metrics in self.metrics if name in metrics]

    def again(self, *settings: str) -> str:
        """The command that repeats the run with other settings."""
        return " ".join(["gnomon train", shlex.quote(f"{self.run}/recipe.toml"), *settings, "run=runs/next"])


def evidence_of(reader: RunReader, train_tasks: Iterable[tuple[str, str]] = ()) -> Evidence:
    """Read a run. Args: train_tasks: as in `Evidence`."""
    steps = steps_to_read(reader.steps_with(("rollout", "held_out")))
    records = [record for step in steps for record in reader.records(step=step)]
    if not any(record.kind == "rollout" for record in records):  # The first step failed: its rollouts are set aside.
        for attempt in reader.attempts:
            records += reader.records(attempt=attempt.number)
    splits = {"rollout": "train", "held_out": "test"}
    return Evidence(
        run=str(reader.folder),
        status=reader.status.value,
        reason=reader.reason,
        steps=reader.steps,
        groups=group_rollouts(records, "rollout"),
        held_out=group_rollouts(records, "held_out"),
        tasks={
            (splits[r.body["of"]], r.task): r.body
            for r in records
            if r.kind == "task" and r.task is not None and r.body["of"] in splits
        },
        metrics=tuple((r.step or 0, r.body["metrics"]) for r in reader.records("step")),
        recipe=at_commits(leaves(tomllib.loads(reader.recipe)), reader.manifest.get("hub")),
        tier=str(reader.manifest.get("tier", "")),
        alarms=tuple(alarms(reader)) if reader.steps <= ALARMS else recorded_alarms(reader),
        train_tasks=tuple(train_tasks),
    )


def steps_to_read(steps: Sequence[int]) -> list[int]:
    """All steps of a short run; of a long one, both ends and some between.

    Args: steps: those that have records, in order. A log of another trainer may begin at any step, and leave some out.
    """
    if len(steps) <= STEPS + 1:
        return list(steps)
    between = len(steps) - 2 * END - 1
    places = [END + between * k // (STEPS - 2 * END) for k in range(STEPS - 2 * END)]
    return [*steps[:END], *(steps[i] for i in places), *steps[-END - 1 :]]


def recorded_alarms(reader: RunReader) -> tuple[Alarm, ...]:
    names = ("name", "step", "sentence")
    events = ({name: event[name] for name in names} | {"read": tuple(event["read"])} for event in reader.alarms())
    return tuple(Alarm(**event) for event in events)


def group_rollouts(records: Sequence[Record], kind: str) -> tuple[Group, ...]:
    """The groups of rollouts of one kind; consecutive records of one step and task are a group."""
    spare = {(r.step, r.task) for r in records if r.kind == "task" and r.body["of"] == kind and r.body.get("spare")}
    matching = (record for record in records if record.kind == kind)
    return tuple(
        tuple(rollout_of(record, identity in spare) for record in group)
        for identity, group in groupby(matching, key=lambda r: (r.step, r.task))
    )


def has_malformed_call(body: Mapping[str, Any]) -> bool:
    """In the format of the model, or in plain text, where the environment counts them."""
    by_env = any(part["name"] == "malformed" and part["value"] > 0 for part in body["parts"])
    return by_env or bool(Calls(**body.get("calls") or {}).malformed)


def rollout_of(record: Record, spare: bool) -> RecordedRollout:
    body, prefix = record.body, "held-out:" if record.kind == "held_out" else ""
    verdict, stop = verdict_of(record), body.get("stop") or ""
    return RecordedRollout(
        address=f"{prefix}{record.step}:{record.task}:{record.sample}",
        step=record.step or 0,
        task=record.task or 0,
        reply=body["reply"],
        tokens=body.get("tokens") or 0,
        version=body.get("version", -1),
        ending=ending(stop, verdict),
        stop=stop,
        turns=len(body.get("turns") or (1,)),
        faults=faults(body),
        malformed_call=not body.get("end") and has_malformed_call(body),
        verdict=verdict,
        advantage=body.get("advantage"),
        spare=spare,
    )
