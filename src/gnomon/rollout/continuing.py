"""Failure-prefix conditioning: some tasks of a step are continued from the beginning of a failed reply to them.

The prefix is a part of the prompt, so only the continuation is trained. Let V(x, h) be the mean reward of continuations
of the prefix h of a reply to task x. The expected gradient of such a task is that of its objective for the prompt
(x, h). For rloo it is E[∇V(x, h)], where h has the law of the prefixes of recorded failures and no gradient of its own.
It is not the gradient of the mean reward of x: the part of a reply before the cut is never trained.

Source: 2026, arXiv 2601.20829 (failure-prefix conditioning).
Differs: the cut is drawn uniformly; there, each task has the length at which about half of the continuations are right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from gnomon.keys import Key
from gnomon.models.tokenizer import Tokenizer
from gnomon.models.weights import WeightsRef
from gnomon.rollout.order import Planned, TaskOrder
from gnomon.rollout.speakers import Cast, Own, Prefix, Speaker
from gnomon.types import Group, Rollout, Task

__all__ = ["Continuing", "FailurePrefixes", "cuts"]


class Failed(Protocol):
    """Recorded failures, as `store.RecordedGroups` reads them."""

    def wrong(self, before: int | None = None) -> Mapping[int, Sequence[tuple[int, int]]]: ...

    def read(self, step: int, task: int) -> list[Group]: ...


class FailurePrefixes:
    """The tasks of every step, with some that have a failed reply on record in the place of the last ones.

    A step draws these tasks uniformly, then a failed reply to each, then where it is cut, with the key of the step.
    They come first. All rollouts of a group continue the same prefix.

    Args:
        order: chooses the other tasks.
        tasks: the train tasks.
        count: tasks per step that are continued, if so many have a failed reply.
        stop: texts that end a reply.
        lag: steps that are sampled ahead. Failures of the run itself are older.
        recorded: the failures of another run. None: those of earlier steps, which `own` must be set to read.
        among: indices of the tasks to draw from; empty means all.
    """

    def __init__(
        self,
        order: TaskOrder,
        tasks: Sequence[Task],
        tokenizer: Tokenizer,
        *,
        count: int,
        stop: Sequence[str],
        lag: int = 0,
        recorded: Failed | None = None,
        among: Sequence[int] = (),
    ) -> None:
        self.order, self.tasks, self.tokenizer, self.count, self.stop = order, tasks, tokenizer, count, tuple(stop)
        self.lag, self.recorded, self.among = lag, recorded, frozenset(among)
        self.own: Failed | None = None
        """Reads the failures of the run itself."""
        self._prefixes: dict[int, dict[int, Prefix]] = {}

    def of(self, step: int) -> Planned:
        tasks, key = self.order.of(step)
        prefixes = self._draw(step, min(self.count, len(tasks)), key.at("failures"))
        self._prefixes = {
            number: earlier for number, earlier in self._prefixes.items() if number >= step - self.lag - 1
        }
        self._prefixes[step] = prefixes
        others = [(index, task) for index, task in tasks if index not in prefixes]
        return [*((index, self.tasks[index]) for index in prefixes), *others[: len(tasks) - len(prefixes)]], key

    def prefixes(self, step: int) -> Mapping[int, Prefix]:
        """The prefix of every task of a step that is continued, by index. `of` must have planned the step."""
        return self._prefixes.get(step, {})

    def _draw(self, step: int, count: int, key: Key) -> dict[int, Prefix]:
        source = self.recorded or self.own
        if source is None or (source is self.own and step <= self.lag):
            return {}
        failures = source.wrong(None if source is self.recorded else step - self.lag)
        usable = sorted(task for task in failures if not self.among or task in self.among)
        prefixes: dict[int, Prefix] = {}
        for task in key.random().sample(usable, min(count, len(usable))):
            at, sample = key.at("failure", task=task).random().choice(failures[task])
            (failed,) = [r for group in source.read(at, task) for r in group.rollouts if r.sample == sample]
            if places := cuts(failed, self.tokenizer, self.stop):
                ids = failed.turns[0].completion.token_ids[: key.at("cut", task=task).random().choice(places)]
                prefixes[task] = Prefix(token_ids=ids, text=self.tokenizer.decode(ids))
        return prefixes

    def see(self, step: int, groups: Sequence[Group]) -> None:
        self.order.see(step, groups)

    def save_state(self, folder: Path) -> None:
        """Write the state of the order: failures are in the records."""
        self.order.save_state(folder)

    def load_state(self, folder: Path) -> None:
        self.order.load_state(folder)


def cuts(failed: Rollout, tokenizer: Tokenizer, stop: Sequence[str]) -> list[int]:
    """Numbers of tokens after which a reply can be cut: at least one, not all, and not within a text that ends replies,
    since an engine looks for such a text in what it samples.
    """
    ids = failed.turns[0].completion.token_ids
    parts = [text[:size] for text in stop for size in range(1, len(text) + 1)]
    return [cut for cut in range(1, len(ids)) if not tokenizer.decode(ids[:cut]).endswith(tuple(parts) or ("\0",))]


class Continuing:
    """The policy continues the prefixes of a step in training. Evaluations begin at the prompt."""

    def __init__(self, own: Own, failures: FailurePrefixes) -> None:
        self.own, self.failures, self.step = own, failures, 0

    def sync(self, weights: WeightsRef, step: int) -> None:
        self.step = step
        self.own.sync(weights, step)

    def save_state(self, folder: Path) -> None:
        self.own.save_state(folder)

    def load_state(self, folder: Path) -> None:
        self.own.load_state(folder)

    @contextmanager
    def training(self, key: Key, group: int) -> Iterator[Cast]:
        prefixes = self.failures.prefixes(self.step)

        def cast(index: int, sample: int) -> tuple[Speaker, ...]:
            prefix = prefixes.get(index)
            return (self.own.speaker if prefix is None else replace(self.own.speaker, prefix=prefix),)

        yield cast

    def evaluation(self, key: Key) -> AbstractContextManager[Cast]:
        return self.own.evaluation(key)
