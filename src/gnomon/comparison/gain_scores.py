"""What training added to a base model, beside what prompting alone gives: statistics of replies to the same tasks."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gnomon.comparison.gain_card import Beside, Format, Gain, Rates, Transfer
from gnomon.rollout.reward import answer, majority
from gnomon.stats import Interval, difference_interval, mean_interval, pass_at_k
from gnomon.types import Group, Rollout

__all__ = ["Played", "Replies", "Sample", "format_of", "gain_of", "replies_of", "transfer_of"]


@dataclass(frozen=True, slots=True)
class Sample:
    """A judged reply."""

    correct: bool
    answer: str | None = None
    """What the verifier read; None where it read nothing."""
    lenient: bool = False
    """Whether the reply is right if its answer counts in any usual form."""


Replies = Mapping[str, Sequence[Sample]]
"""The replies of one policy under one prompt, by id of the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """The replies of all runs to the same tasks. A task that was not judged everywhere is left out."""

    before: Sequence[Replies]
    """Of the base model, one for each run."""
    after: Sequence[Replies]
    """Of the trained policy."""
    examples: Replies | None = None
    """Of the base model after solved examples."""

    @property
    def tasks(self) -> list[str]:
        """Judged everywhere."""
        rest = [*self.before[1:], *self.after, *([] if self.examples is None else [self.examples])]
        return [task for task in self.before[0] if all(task in other for other in rest)]


def replies_of(groups: Sequence[Group], lenient: Callable[[Rollout], bool] = lambda rollout: False) -> Replies:
    """The replies to every judged task; of a task that was played twice the first. Args: lenient: of a wrong reply."""
    replies: dict[str, tuple[Sample, ...]] = {}
    for group in groups:
        if group.judged and group.task.id not in replies:
            replies[group.task.id] = tuple(
                Sample(rollout.verdict.correct, answer(rollout), rollout.verdict.correct or lenient(rollout))
                for rollout in group.rollouts
            )
    return replies


Score = Callable[[Sequence[Sample]], float]
"""A number from 0 to 1 for the replies to a task."""


def pass_1(samples: Sequence[Sample]) -> float:
    return statistics.fmean(sample.correct for sample in samples)


def pass_k(samples: Sequence[Sample]) -> float:
    """pass@k, with k the number of samples."""
    return pass_at_k(len(samples), sum(sample.correct for sample in samples), len(samples))


def majority_score(samples: Sequence[Sample]) -> float:
    """Whether the most frequent answer is right."""
    vote = majority([sample.answer for sample in samples])
    return float(vote is not None and next(sample.correct for sample in samples if sample.answer == vote))


def lenient(samples: Sequence[Sample]) -> float:
    return statistics.fmean(sample.lenient for sample in samples)


@dataclass(frozen=True, slots=True)
class Table:
    """Scores of tasks, over runs."""

    runs: Sequence[Replies]
    tasks: Sequence[str]

    def rate(self, score: Score) -> Interval:
        """The mean with an interval over tasks."""
        values = [score(replies[task]) for replies in self.runs for task in self.tasks]
        return mean_interval(values, [task for _ in self.runs for task in self.tasks])

    def means(self, score: Score) -> list[float]:
        """Of every task over the runs."""
        return [statistics.fmean(score(replies[task]) for replies in self.runs) for task in self.tasks]

    def rates(self, prompt: str, *, after_training: bool = False) -> Rates:
        has_answers = any(
            sample.answer is not None for replies in self.runs for task in self.tasks for sample in replies[task]
        )
        majority = self.rate(majority_score) if has_answers else None
        return Rates(
            prompt=prompt, trained=after_training, pass_1=self.rate(pass_1), pass_k=self.rate(pass_k), majority=majority
        )


def less(one: Sequence[float], other: Sequence[float]) -> Interval:
    return difference_interval([a - b for a, b in zip(one, other, strict=True)])


def gain_of(played: Played, usual: str, examples: str) -> Gain:
    """Args: usual, examples: names of the prompt of the runs and of the one with solved examples."""
    tasks = played.tasks
    before, after = Table(played.before, tasks), Table(played.after, tasks)
    bases = {usual: before} | ({} if played.examples is None else {examples: Table([played.examples], tasks)})
    rows = (*(table.rates(name) for name, table in bases.items()), after.rates(usual, after_training=True))
    by_run = [
        statistics.fmean(Table([b], tasks).means(pass_1)) - statistics.fmean(Table([a], tasks).means(pass_1))
        for a, b in zip(played.before, played.after, strict=True)
    ]

    def beside(score: Score) -> Beside:
        best = max(bases, key=lambda name: statistics.fmean(bases[name].means(score)))
        return Beside(prompt=best, difference=less(after.means(score), bases[best].means(score)))

    return Gain(
        k=min(len(samples) for samples in played.before[0].values()),
        tasks=len(tasks),
        rows=rows,
        pass_1=less(after.means(pass_1), before.means(pass_1)),
        pass_k=less(after.means(pass_k), before.means(pass_k)),
        by_run=tuple(by_run),
        over_runs=difference_interval(by_run) if len(by_run) > 1 else None,
        beside_1=beside(pass_1),
        beside_k=beside(majority_score) if all(row.majority for row in rows) else None,
    )


def format_of(played: Played) -> Format:
    """Of replies whose `lenient` is known."""
    before, after = Table(played.before, played.tasks), Table(played.after, played.tasks)
    hidden = [
        [a - b for a, b in zip(table.means(lenient), table.means(pass_1), strict=True)] for table in (before, after)
    ]
    return Format(
        before=before.rate(lenient),
        after=after.rate(lenient),
        form=less(*hidden),
        answers=less(after.means(lenient), before.means(lenient)),
    )


def transfer_of(played: Played, env: str) -> Transfer:
    before, after = Table(played.before, played.tasks), Table(played.after, played.tasks)
    gain = less(after.means(pass_1), before.means(pass_1))
    return Transfer(env=env, before=before.rate(pass_1), after=after.rate(pass_1), gain=gain)
