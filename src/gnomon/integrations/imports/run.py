"""A run folder that holds rollouts of another trainer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gnomon.integrations.imports.rollout import Foreign
from gnomon.integrations.imports.rule import Rule, rule
from gnomon.stats import Mean, Stats, Sum, mean_interval, merge, pass_at_k
from gnomon.store import Record, Run, RunStatus, encode
from gnomon.types import EMPTY, Finish, Group, Rollout, Status, Stop, Verdict

__all__ = ["ImportedRun"]

WHY = "the rollouts were sampled by other software"


class ImportedRun:
    """Writes a run folder that is marked as imported. A context manager: what raises inside it fails the run.

    Args:
        format: of the log, or the name of the recorder.
        correct: the rule for right and wrong (`gnomon.integrations.imports.rule`); empty for no verdicts.
        facts: more for the manifest and the first record, such as the hashes of the files.
    Raises: ConfigError E060 for a rule that cannot be read; as `Run.create`.
    """

    def __init__(self, folder: Path | str, *, format: str, correct: str = "", facts: Mapping[str, Any] = EMPTY) -> None:
        self.rule: Rule | None = rule(correct)
        origin = {"format": format, "correct": correct, **facts}
        recipe = (
            f"# Rollouts of another trainer. No command can train this.\n[imported]\nformat = {json.dumps(format)}\n"
        )
        manifest = {"imported": origin, "versions": {"gnomon": version("gnomon")}}
        self.store = Run.create(folder, recipe=recipe, manifest=manifest, genesis={"imported": origin}, varies=WHY)
        self.rollouts = 0
        """Number of rollouts written."""
        self._tasks: dict[str, dict[str, int]] = {"rollout": {}, "held_out": {}}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """A run that an error ends has failed; an interrupted one is interrupted."""
        if error is None:
            self.store.set_status(RunStatus.FINISHED)
        elif not isinstance(error, Exception):
            self.store.set_status(RunStatus.INTERRUPTED, "asked to stop")
        self.store.__exit__(kind, error, tb)

    def step(
        self, step: int, rollouts: Sequence[Foreign], *, grad_norm: float | None = None, weights: Sequence[float] = ()
    ) -> None:
        """Store the rollouts of a training step, and its metrics. Steps must increase.

        Args: grad_norm, of the step's gradient before it is bounded; weights, some of the weights after the step.
        """
        records, groups = self._records("rollout", step, rollouts)
        statuses = Counter(r.verdict.status.value for group in groups for r in group.rollouts)
        extra = {} if grad_norm is None else {"grad_norm": grad_norm}
        body: dict[str, Any] = {
            "metrics": metrics(groups, rollouts) | extra,
            "statuses": dict(sorted(statuses.items())),
        }
        if weights:
            body["weights"] = list(weights)
        self.store.append([*records, Record(kind="step", step=step, body=body)])

    def evaluation(self, step: int, rollouts: Sequence[Foreign]) -> None:
        """Store the rollouts of an evaluation after this many finished steps, and its result."""
        records, groups = self._records("held_out", step, rollouts)
        self.store.append([*records, Record(kind="evaluation", step=step, body=result(groups, rollouts))])

    def _records(self, kind: str, step: int, rollouts: Sequence[Foreign]) -> tuple[list[Record], list[Group]]:
        """The records of groups: rollouts of equal tasks, in the order in which the tasks came first."""
        by_task: dict[str, list[Foreign]] = {}
        for each in rollouts:
            by_task.setdefault(each.task.id, []).append(each)
        tasks, records, groups = self._tasks[kind], [], []
        for name, some in by_task.items():
            group = Group(
                task=some[0].task,
                index=tasks.setdefault(name, len(tasks)),
                rollouts=tuple(self._rollout(number, each) for number, each in enumerate(some)),
            )
            task_record, *rollout_records = encode(group, kind=kind, step=step)
            records += [
                task_record,
                *(mark(record, each) for record, each in zip(rollout_records, some, strict=True)),
            ]
            groups.append(group)
        self.rollouts += len(rollouts)
        return records, groups

    def _rollout(self, sample: int, each: Foreign) -> Rollout:
        ended = each.turns[-1].completion.finish if each.turns else Finish.UNKNOWN
        return Rollout(
            task=each.task,
            sample=sample,
            turns=each.turns,
            verdict=Verdict(status=self._status(each), parts=each.parts, detail=each.failed),
            stop=Stop.TRUNCATED if ended is Finish.LENGTH else Stop.DONE,
        )

    def _status(self, each: Foreign) -> Status:
        if each.failed:
            return Status.FAILED
        right = self.rule and self.rule({"reward": each.reward, **each.values}, each.source)
        return Status.UNJUDGED if right is None else Status.CORRECT if right else Status.WRONG


def mark(record: Record, each: Foreign) -> Record:
    """The record of a rollout with what only an imported one has. What was not logged is None."""
    body = {**record.body, "reward": each.reward, "source": each.source}
    if not has_tokens(each):
        body["tokens"] = None
        if "turns" in body:
            body["turns"] = [{**turn, "tokens": None} for turn in body["turns"]]
    if each.advantage is not None:
        body["advantage"] = each.advantage
    for name in ("policy_logp", "coefficients"):
        if values := getattr(each, name):
            body[name] = list(values)
    return replace(record, body=body)


def has_tokens(each: Foreign) -> bool:
    return any(turn.completion.token_ids for turn in each.turns)


def metrics(groups: Sequence[Group], rollouts: Sequence[Foreign]) -> dict[str, float]:
    """The metrics of a step, each over the rollouts or groups for which it is known."""
    stats: Stats = {"failed": Mean(0.0, 0)}
    for each in rollouts:
        one: Stats = {f"part/{part.name}": Mean(part.value) for part in each.parts}
        if each.reward is not None:
            one["reward"] = Mean(each.reward)
        if has_tokens(each):
            size = sum(len(turn.completion.token_ids) for turn in each.turns)
            one |= {"length": Mean(size), "tokens": Sum(size)}
        if each.turns and each.turns[-1].completion.finish is not Finish.UNKNOWN:
            one["truncated"] = Mean(each.turns[-1].completion.finish is Finish.LENGTH)
        stats = merge(stats, one)
    for group in groups:
        stats = merge(stats, {"failed": Mean(not group.judged)})
        right = rights(group)
        if right:
            stats = merge(stats, {"all_right": Mean(all(right)), "all_wrong": Mean(not any(right))})
            stats = merge(stats, {"correct": Mean(sum(right), len(right))})
    return {name: stat.value for name, stat in sorted(stats.items())}


def rights(group: Group) -> list[bool]:
    """For each rollout whether it is right; nothing if some were not judged."""
    statuses = [rollout.verdict.status for rollout in group.rollouts]
    return [] if {Status.UNJUDGED, Status.FAILED} & set(statuses) else [s is Status.CORRECT for s in statuses]


def result(groups: Sequence[Group], rollouts: Sequence[Foreign]) -> dict[str, Any]:
    """The body of an evaluation. Without a rule for right and wrong, `pass_at` is empty."""
    numbers = metrics(groups, rollouts)
    judged_groups = [(group.task.id, each) for group in groups if (each := rights(group))]
    ids, right = [name for name, _ in judged_groups], [each for _, each in judged_groups]
    least = min(map(len, right), default=0)
    statuses = Counter(r.verdict.status.value for group in groups for r in group.rollouts)
    return {
        "version": -1,
        "pass_at": {
            str(k): asdict(mean_interval([pass_at_k(len(each), sum(each), k) for each in right], ids))
            for k in sorted({1, least} - {0} if right else ())
        },
        **{name: numbers.get(name) for name in ("reward", "length", "truncated")},
        "statuses": dict(sorted(statuses.items())),
    }
