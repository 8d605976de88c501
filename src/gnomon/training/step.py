"""What one step of a run has to record, gathered until it is stored as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from time import monotonic, process_time
from typing import Any

from gnomon.envs.agent import END_LIMITS, End
from gnomon.learners.batch import Batch
from gnomon.rollout.failures import Unjudged
from gnomon.stats import Mean, Stat, Stats, Sum, merge
from gnomon.store import Record, encode, failpoint
from gnomon.store.codec import pack_floats
from gnomon.store.layout import of_set, set_of
from gnomon.training.evaluate import Evaluation
from gnomon.types import CALL_LIMITS, Group, Rollout, Stop
from gnomon.verifiers.breakdown import breakdown, entries

__all__ = ["StepLog", "rollout_stats"]

Credit = Mapping[str, Any]
"""Fields of a rollout's record: what it was trained with."""
SPARE: Credit = {"advantage": 0.0}
RECEIPT = "weights/"
"""How the names of metrics begin that an engine makes of its loads."""


class StepLog:
    """Rollouts, advantages, metrics and evaluations of a step. Args: number: of the step, from 0."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.began, self.began_cpu = monotonic(), process_time()
        """When the training part of the step began, by the clock and in processor time of this process."""
        self.evaluations: list[list[Record]] = []
        """The records of each; the last of them is the evaluation itself."""
        self._groups: Sequence[Group] = ()
        self._credit: Sequence[Credit] | None = None
        self._stats: Stats = {}
        self._statuses: dict[str, int] = {}

    def evaluation(self, evaluation: Evaluation) -> None:
        """A measurement on held-out tasks; the one of step 0 is the baseline."""
        failpoint("evaluation")
        kind = of_set("evaluation" if self.number else "baseline", set_of(evaluation.kind))
        records = records_of(evaluation.kind, self.number, evaluation.groups)
        self.evaluations.append([*records, Record(kind=kind, step=self.number, body=evaluation.body())])
        self.began, self.began_cpu = monotonic(), process_time()

    def rollouts(self, groups: Sequence[Group]) -> None:
        """All rollouts of the step, before any is dropped."""
        self._groups = groups

    def credit(self, batch: Batch) -> None:
        """The credit of the rollouts that are trained on, in order. Rollouts of spare groups, and of groups that could
        not be judged, have none."""
        self._credit = list(credit_of(batch))
        sampled_groups = fresh_groups(self._groups)
        rollouts = [rollout for group in sampled_groups for rollout in group.rollouts]
        self._statuses = dict(sorted(Counter(rollout.verdict.status.value for rollout in rollouts).items()))
        self.stats(rollout_stats(sampled_groups))
        self.stats(continued_stats(self._groups))
        self.stats(breakdown(entries(sampled_groups)))

    def stats(self, stats: Mapping[str, Stat]) -> None:
        self._stats = merge(self._stats, dict(stats))

    def metrics(self) -> dict[str, float]:
        """All but the receipts of weights."""
        return {name: stat.value for name, stat in sorted(self._stats.items()) if not name.startswith(RECEIPT)}

    def receipts(self) -> dict[str, float]:
        """What loads of weights have proved. It stands beside the chain: a resumed run has loaded other versions."""
        return {name: stat.value for name, stat in sorted(self._stats.items()) if name.startswith(RECEIPT)}

    def records(self) -> list[Record]:
        """All records of the step, in the order in which they are stored."""
        body = {"metrics": self.metrics(), "statuses": self._statuses}
        return [*self.partial_records(), Record(kind="step", step=self.number, body=body)]

    def records_to_train(self) -> list[Record]:
        """Those of the rollouts to train on."""
        return list(records_of("rollout", self.number, self._groups, self._credit))

    def partial_records(self, error: Exception | None = None) -> list[Record]:
        """What was measured and sampled so far. Args: error: what ended the step; it may carry more rollouts."""
        records = [*chain.from_iterable(self.evaluations), *self.records_to_train()]
        if isinstance(error, Unjudged) and not self._groups:
            records += records_of(error.kind, self.number, error.groups)
        return records


def records_of(
    kind: str, step: int, groups: Sequence[Group], credit: Sequence[Credit] | None = None
) -> Iterator[Record]:
    """The records of groups, each rollout with its credit where there is credit."""
    remaining = iter(credit or ())
    for group in groups:
        for record in encode(group, kind=kind, step=step):
            if record.kind == kind and credit is not None and group.judged:
                record = replace(record, body={**record.body, **(SPARE if group.spare else next(remaining))})
            yield record


def credit_of(batch: Batch) -> Iterator[Credit]:
    """What the records keep of a batch's credit, for each of its rollouts.

    `advantage` is the mean over its tokens; `advantages` has those of all tokens where they differ. `proximal_logp` is
    kept where the learner scored the batch before its first update and may differ from the sampler.
    """
    scored = batch.by_rollout(None if batch.exact else batch.proximal_logp)
    for mean, advantages, logp in zip(batch.mean_advantages, batch.by_rollout(batch.advantage), scored, strict=True):
        row: dict[str, Any] = {"advantage": mean}
        if len(set(advantages)) > 1:
            row["advantages"] = pack_floats(advantages)
        if logp:
            row["proximal_logp"] = pack_floats(logp)
        yield row


def fresh_groups(groups: Sequence[Group]) -> Sequence[Group]:
    """The groups that this step sampled from the prompt alone, or all where there are none."""
    return [group for group in groups if group.replayed is None and not group.continued] or groups


def continued_stats(groups: Sequence[Group]) -> Stats:
    """Rates of the groups that continue a prefix; nothing where there are none."""
    continued = [group for group in groups if group.continued and group.replayed is None]
    if not continued:
        return {}
    rollouts = [rollout for group in continued if group.judged for rollout in group.rollouts]
    stats: Stats = {"continued": Mean(float(len(continued)), len(groups))}
    if rollouts:
        stats["continued/correct"] = Mean(float(sum(r.verdict.correct for r in rollouts)), len(rollouts))
    if len(fresh_groups(groups)) < len(groups):
        stats["tokens"] = Sum(sum(rollout.tokens for rollout in rollouts))
    return stats


def rollout_stats(groups: Sequence[Group]) -> Stats:
    """Rates of a step's rollouts: `all_right`, `all_wrong`, `spare` and `failed` per group, every other per rollout.

    Groups that could not be judged count as `failed` and in nothing else.
    """
    stats: Stats = {"failed": Mean(0.0, 0)}
    spare = any(group.spare for group in groups)
    calls = any(rollout.calls.malformed and not rollout.end for group in groups for rollout in group.rollouts)
    illegal = any(rollout.calls.illegal for group in groups for rollout in group.rollouts)
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
                "tokens": Sum(rollout.tokens if group.replayed is None else 0),
            }
            one |= {"malformed_calls": Mean(rollout.calls.malformed)} if calls else {}
            one |= {"illegal": Mean(rollout.calls.illegal)} if illegal else {}
            one |= program_stats(rollout) if rollout.end else {}
            parts: Stats = {f"part/{part.name}": Mean(part.value) for part in rollout.verdict.parts}
            stats = merge(stats, one | parts)
    return stats


def program_stats(rollout: Rollout) -> Stats:
    """Rates of a rollout that a program played."""
    end, calls = End.loads(rollout.end), rollout.calls
    return {
        "program/calls": Mean(len(rollout.turns)),
        "program/branches": Mean(len({turn.fork for turn in rollout.turns})),
        "program/silent": Mean(not rollout.turns),
        "program/failed": Mean(end.status not in (0, None)),
        "program/limited": Mean(bool(end.limit)),
        **{f"program/limited/{name}": Mean(name == end.limit) for name in END_LIMITS},
        **{f"program/limited/{name}": Mean(name in calls.limits) for name in CALL_LIMITS},
        "program/refused": Mean(sum(calls.refused.values())),
        "program/malformed": Mean(calls.malformed),
        "program/required": Mean(calls.required),
        "program/retried": Mean(calls.retried),
        "program/undelivered": Mean(calls.undelivered),
    }
