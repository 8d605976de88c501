"""Words of self-reflection in the replies of a run: how many replies have some, and how often these are right."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from gnomon.stats import Interval, difference_interval, mean_interval
from gnomon.store import RunReader
from gnomon.types import Status
from gnomon_lab.probes.kinds import none_judged

__all__ = ["WORDS", "Reflection", "Shares", "reflecting", "reflection", "reflection_text"]

WORDS = (
    "wait", "recheck", "re-check", "double-check", "double check", "check again", "rethink", "think again", "reassess",
    "reevaluate", "re-evaluate", "reexamine", "re-examine", "reconsider", "reanalyze", "verify again",
    "go over the steps",
)  # fmt: skip
"""Source: after the keywords of Liu et al. 2025, arXiv 2503.20783, with `wait`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The replies of a step, or of a whole run."""

    step: int | None
    """None for all steps. Held-out replies of a step were sampled before it."""
    replies: int
    """That were judged."""
    with_words: int
    right_with: Interval | None
    """Fraction of correct replies among those with a word, over different tasks; None where there are none."""
    right_without: Interval | None

    @property
    def share(self) -> float:
        """Fraction of replies with a word."""
        return self.with_words / self.replies


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflection:
    """What a run's replies show of some words."""

    words: tuple[str, ...]
    whole: Shares
    steps: tuple[Shares, ...]
    within: Interval | None
    """Fraction of correct replies with a word less that without, within groups that have both kinds of replies: the
    mean over different tasks. It compares replies of one task and one policy. None where no group has both kinds."""

    def body(self) -> dict[str, Any]:
        """As JSON values."""
        shares = [{**asdict(each), "share": each.share} for each in (self.whole, *self.steps)]
        within = None if self.within is None else asdict(self.within)
        return {"words": list(self.words), "whole": shares[0], "within": within, "steps": shares[1:]}


@dataclass(frozen=True, slots=True)
class Reply:
    step: int
    task: str
    has: bool
    correct: bool


def reflection(reader: RunReader, words: Sequence[str] = WORDS, kind: str = "rollout") -> Reflection:
    """How many stored replies have one of the words, and how often these are right.

    A rollout counts as one reply, over all its turns. Words are whole words in upper or lower case.

    Args: kind: of the rollouts: `rollout`, `held_out` or `held_out.SET`.
    Raises: RunError E436 for a run without judged rollouts of this kind.
    """
    replies = list(read(reader, pattern(words), kind))
    if not replies:
        raise none_judged(reader, kind)
    return Reflection(
        words=tuple(words),
        whole=shares(replies, None),
        steps=tuple(shares(list(some), step) for step, some in groupby(replies, lambda reply: reply.step)),
        within=within(replies),
    )


def reflecting(words: Sequence[str] = WORDS, kind: str = "rollout") -> Callable[[RunReader], float]:
    """A measure of a study: the share of replies with a word at the last step."""
    return lambda reader: reflection(reader, words, kind).steps[-1].share


def pattern(words: Sequence[str]) -> re.Pattern[str]:
    """Any of the words, with any white space where they have a space."""
    any_space = (r"\s+".join(map(re.escape, word.split())) for word in words)
    return re.compile(rf"(?<!\w)(?:{'|'.join(any_space)})(?!\w)", re.IGNORECASE)


def read(reader: RunReader, words: re.Pattern[str], kind: str) -> Iterator[Reply]:
    """The judged replies of a kind, in order."""
    names = {record.task: record.body["id"] for record in reader.records("task") if record.body["of"] == kind}
    for record in reader.records(kind):
        status = record.body["status"]
        if status not in (Status.FAILED, Status.UNJUDGED):
            has = words.search(record.body["reply"]) is not None
            yield Reply(record.step or 0, names[record.task], has, status == Status.CORRECT)


def shares(replies: Sequence[Reply], step: int | None) -> Shares:
    having, others = ([reply for reply in replies if reply.has is has] for has in (True, False))
    return Shares(
        step=step,
        replies=len(replies),
        with_words=len(having),
        right_with=right(having),
        right_without=right(others),
    )


def right(replies: Sequence[Reply]) -> Interval | None:
    """Fraction of correct replies over different tasks."""
    if not replies:
        return None
    return mean_interval([float(reply.correct) for reply in replies], [reply.task for reply in replies])


def within(replies: Sequence[Reply]) -> Interval | None:
    """The paired difference over groups; the visits of one task are averaged."""
    groups: dict[tuple[str, int], tuple[list[bool], list[bool]]] = {}
    for reply in replies:
        groups.setdefault((reply.task, reply.step), ([], []))[reply.has].append(reply.correct)
    differences: dict[str, list[float]] = {}
    for (task, _), (without, having) in groups.items():
        if without and having:
            differences.setdefault(task, []).append(statistics.fmean(having) - statistics.fmean(without))
    return difference_interval([statistics.fmean(each) for each in differences.values()]) if differences else None


def reflection_text(found: Reflection) -> str:
    """For a terminal: a line per step, then the whole run."""
    lines = [f"{'step':>5}  {'replies':>7}  with a word  right with             right without"]
    lines += [shares_line(each) for each in (*found.steps, found.whole)]
    if found.within is None:
        lines.append("No group has replies of both kinds, so the two cannot be compared on equal tasks.")
    else:
        lines.append(
            f"on equal tasks: replies with a word are right {with_signs(found.within)} more often than the others of "
            f"their group ({found.within.n} different tasks)"
        )
    return "\n".join([*lines, f"words: {', '.join(found.words)}"])


def shares_line(each: Shares) -> str:
    step = "all" if each.step is None else str(each.step)
    with_words, without = (str(found or "-") for found in (each.right_with, each.right_without))
    return f"{step:>5}  {each.replies:>7}  {each.share:>11.1%}  {with_words:<21}  {without}"


def with_signs(interval: Interval) -> str:
    return f"{interval.value:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"
