"""Rollouts without a verdict because the verifier or the environment failed, and what they may hide in a curve."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from gnomon.extensions import Panel
from gnomon.store import RunReader
from gnomon.store.reader import RolloutRow
from gnomon.types import Status

__all__ = ["Curve", "Failures", "Window", "bound", "failures", "panel"]

READ = 500
"""Failed rollouts of which the cause is read."""
PART = 0.1
"""Fraction of the steps of training at its beginning, and at its end, whose rewards are compared."""
ERRORS = 1.96
"""Standard errors within which a difference may be noise."""


@dataclass(frozen=True, slots=True)
class Window:
    """The scores of some groups, without those of failed rollouts, and how many failed."""

    groups: Sequence[Sequence[float]]
    failed: int

    @property
    def judged(self) -> int:
        return sum(map(len, self.groups))

    @property
    def share(self) -> float:
        return self.failed / (self.failed + self.judged)

    @property
    def mean(self) -> float:
        return math.fsum(score for group in self.groups for score in group) / self.judged

    @property
    def error(self) -> float:
        """Standard error of the mean. Groups are independent, rollouts of one group are not."""
        mean, count = self.mean, len(self.groups)
        residuals = math.fsum((math.fsum(group) - mean * len(group)) ** 2 for group in self.groups)
        return math.sqrt(residuals * count / max(1, count - 1)) / self.judged


def bound(first: Window, last: Window, low: float, high: float) -> float:
    """The largest gain of the mean that failures and noise alone can make.

    The mean of all rollouts is the same in both windows in the worst case that explains the most: every failed rollout
    of the first would have earned `high`, and of the last `low`. 1.96 standard errors of the difference are added.
    Source: the worst-case bounds of Manski 1990, applied to both means.
    """
    least = ((1 - first.share) * first.mean + first.share * high - last.share * low) / (1 - last.share)
    return max(0.0, least - first.mean) + ERRORS * math.hypot(first.error, last.error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A curve whose values leave failed rollouts out."""

    name: str
    shares: tuple[float, float]
    """Fraction that failed at the beginning and at the end."""
    gain: float
    bound: float
    """A smaller gain could be failures and noise alone."""

    @property
    def sentence(self) -> str:
        return (
            f"{self.name}: {self.shares[0]:.1%} failed at the beginning and {self.shares[1]:.1%} at the end; a gain "
            f"below {self.bound:.3f} could be failures and noise alone; the gain is {self.gain:+.3f}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    failed: int
    rollouts: int
    causes: Mapping[str, int]
    """By the end of the traceback, of at most `READ` failed rollouts."""
    length: float | None
    """Correlation of failure with the number of sampled tokens; None if it is not known."""
    task: float | None
    """Fraction of the variance of failure that the task explains beyond chance; None with one rollout of each task."""
    curves: tuple[Curve, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """What a reader should know, the share first."""
        causes = ", ".join(f"{name} {count / sum(self.causes.values()):.0%}" for name, count in self.causes.items())
        result = [
            f"{self.failed} of {self.rollouts} rollouts ({self.failed / self.rollouts:.1%}) have no score: {causes}"
        ]
        if self.length is not None:
            result.append(f"correlation of failure with length: {self.length:+.2f}")
        if self.task is not None:
            result.append(f"the task explains {self.task:.0%} of which rollouts fail")
        return (*result, *(curve.sentence for curve in self.curves))

    def body(self) -> dict[str, Any]:
        curves = {
            each.name: {"failed": list(each.shares), "gain": each.gain, "bound": each.bound} for each in self.curves
        }
        return {
            "failed": self.failed, "rollouts": self.rollouts, "causes": dict(self.causes),
            "correlation_with_length": self.length, "explained_by_task": self.task, "curves": curves,
        }  # fmt: skip


def failures(reader: RunReader) -> Failures | None:
    """The account of failures of a run; None if no rollout failed."""
    kinds = [kind for kind in ("rollout", "baseline", "held_out") if reader.count(kind)]
    rows = {kind: reader.rollout_rows(kind=kind) for kind in kinds}
    every = [row for kind in kinds for row in rows[kind]]
    failed = [row for row in every if _failed(row)]
    if not failed:
        return None
    sampled_rows = failed[:: -(-len(failed) // READ)]
    causes = Counter(_cause(reader.record(row.seq).body.get("detail", "")) for row in sampled_rows)
    curves = (_training(rows.get("rollout", [])), _held_out(rows.get("baseline", []), rows.get("held_out", [])))
    return Failures(
        failed=len(failed),
        rollouts=len(every),
        causes=dict(causes.most_common(5)),
        length=_correlation([(float(_failed(row)), row.tokens) for row in every if row.tokens is not None]),
        task=_explained_share([(row.task, _failed(row)) for row in rows.get("rollout", [])]),
        curves=tuple(curve for curve in curves if curve is not None),
    )


def panel(reader: RunReader) -> list[Panel]:
    """The account for a terminal and a page; empty if no rollout failed."""
    account = failures(reader)
    if account is None:
        return []
    text = "\n".join(f"{'failures' if i == 0 else '':<12} {line}" for i, line in enumerate(account.sentences))
    return [Panel(name="failures", facts=account.body(), text=text, sentences=account.sentences)]


def _failed(row: RolloutRow) -> bool:
    return row.status == Status.FAILED


def _cause(detail: str) -> str:
    """The end of a traceback, without what differs from rollout to rollout."""
    line = (detail.strip().splitlines() or ["no detail was recorded"])[-1]
    return re.sub(r"0x[0-9a-f]+|[0-9]+(\.[0-9]+)?", "…", line)[:80]


def _training(rows: Sequence[RolloutRow]) -> Curve | None:
    """The mean reward of the first steps and of the last."""
    steps = sorted({row.step for row in rows if row.step is not None})
    if len(steps) < 2:
        return None
    count = max(1, round(PART * len(steps)))
    scores = [row.reward for row in rows if row.reward is not None and not _failed(row)]
    if not scores:
        return None
    ends = [[row for row in rows if row.step in end] for end in (set(steps[:count]), set(steps[-count:]))]
    windows = [_window(end, {row.seq: row.reward for row in end}) for end in ends]
    return _curve("reward", windows, min(scores), max(scores))


def _held_out(baseline: Sequence[RolloutRow], later: Sequence[RolloutRow]) -> Curve | None:
    """Held-out pass@1 of the first evaluation and of the last."""
    steps = sorted({row.step for row in later if row.step is not None})
    first = list(baseline) or [row for row in later if steps and row.step == steps[0]]
    last = [row for row in later if steps and row.step == steps[-1]]
    if not first or not last or (not baseline and len(steps) < 2):
        return None
    windows = [_window(end, {row.seq: float(row.status == Status.CORRECT) for row in end}) for end in (first, last)]
    return _curve("held-out pass@1", windows, 0.0, 1.0)


def _window(rows: Iterable[RolloutRow], scores: Mapping[int, float | None]) -> Window:
    groups: dict[tuple[int | None, int | None], list[float]] = defaultdict(list)
    failed = 0
    for row in rows:
        score = scores[row.seq]
        if _failed(row):
            failed += 1
        elif score is not None:
            groups[row.step, row.task].append(score)
    return Window(list(groups.values()), failed)


def _curve(name: str, windows: Sequence[Window], low: float, high: float) -> Curve | None:
    first, last = windows
    if not first.judged or not last.judged or not first.failed + last.failed:
        return None
    return Curve(
        name=name, shares=(first.share, last.share), gain=last.mean - first.mean, bound=bound(first, last, low, high)
    )


def _correlation(pairs: Collection[tuple[float, int | None]]) -> float | None:
    complete = [(one, float(other)) for one, other in pairs if other is not None]
    if len(complete) < 3:
        return None
    means = fmean(one for one, _ in complete), fmean(other for _, other in complete)
    product = math.fsum((one - means[0]) * (other - means[1]) for one, other in complete)
    size = math.prod(math.sqrt(math.fsum((pair[at] - means[at]) ** 2 for pair in complete)) for at in (0, 1))
    return product / size if size else None


def _explained_share(pairs: Sequence[tuple[int | None, bool]]) -> float | None:
    """ω², the share of the variance between tasks without the part that chance makes, at least 0."""
    tasks: dict[int | None, list[bool]] = defaultdict(list)
    for task, failed in pairs:
        tasks[task].append(failed)
    count, mean = len(pairs), fmean(failed for _, failed in pairs) if pairs else 0.0
    total = count * mean * (1 - mean)
    if len(tasks) < 2 or count <= len(tasks) or not total:
        return None
    between = math.fsum(len(group) * (fmean(group) - mean) ** 2 for group in tasks.values())
    within = (total - between) / (count - len(tasks))
    return max(0.0, (between - (len(tasks) - 1) * within) / (total + within))
