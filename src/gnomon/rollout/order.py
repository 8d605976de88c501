"""Which tasks a step plays, and with which key: drawn uniformly, or chosen by a curriculum from earlier results."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gnomon.errors import ConfigError
from gnomon.keys import Key
from gnomon.types import Group, Task

__all__ = [
    "Band",
    "Choice",
    "Chosen",
    "Curriculum",
    "Drawn",
    "EasiestFirst",
    "Planned",
    "Result",
    "TaskOrder",
    "draw",
]

Planned = tuple[Sequence[tuple[int, Task]], Key]
"""The tasks of a step, each with its index in the split, and the key of the step's draws."""
FILE = "results.json"


class TaskOrder(Protocol):
    """The tasks of every step. What a step plays follows from its number and from the results of earlier steps."""

    def of(self, step: int) -> Planned:
        """The tasks of a step. It may be asked for several times, and up to `rollout.lag` steps ahead."""
        ...

    def see(self, step: int, groups: Sequence[Group]) -> None:
        """Take the groups that a step has played."""
        ...

    def save_state(self, folder: Path) -> None:
        """Write the state for the next steps of a run into a checkpoint."""
        ...

    def load_state(self, folder: Path) -> None:
        """Restore the state from a checkpoint."""
        ...


def draw(tasks: Sequence[Task], count: int, key: Key, among: Sequence[int] = ()) -> list[tuple[int, Task]]:
    """Distinct tasks of a split, drawn uniformly from all or from `among`, each with its index."""
    indices = among or range(len(tasks))
    return [(index, tasks[index]) for index in key.random().sample(indices, min(count, len(indices)))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Every step draws its tasks uniformly."""

    tasks: Sequence[Task]
    """The train tasks."""
    count: int
    """Number of tasks per step."""
    key: Key
    """Of the run."""
    among: Sequence[int] = ()
    """Indices of the tasks to draw from; empty means all."""
    places: Sequence[int]
    """By step, the step whose draws it takes."""

    def of(self, step: int) -> Planned:
        source = self.places[step]
        tasks = draw(self.tasks, self.count, self.key.at("tasks", step=source), self.among)
        return tasks, self.key.at("rollouts", step=source)

    def see(self, step: int, groups: Sequence[Group]) -> None:
        """Nothing depends on results."""

    def save_state(self, folder: Path) -> None:
        """Nothing: a step follows from its number."""

    def load_state(self, folder: Path) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a task went in a step."""

    step: int
    task: int
    """Index in the train split."""
    correct: int
    """Correct rollouts, of all players together."""
    rollouts: int

    @property
    def success(self) -> float:
        """Fraction of correct rollouts."""
        return self.correct / self.rollouts


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a curriculum may know when it chooses the tasks of a step."""

    step: int
    steps: int
    """Number of steps of the run."""
    count: int
    """Number of tasks to choose; all, if fewer are offered."""
    offered: Sequence[int]
    """Indices of the train tasks."""
    results: Sequence[Result]
    """Results of the steps that are older than `rollout.lag`, in order. A step samples with weights that those steps
    have trained. Replayed and continued rollouts have none."""
    key: Key
    """Of all random draws of the choice."""

    @property
    def latest(self) -> dict[int, Result]:
        """The newest result of every task that has one."""
        return {result.task: result for result in self.results}


class Curriculum(Protocol):
    """Chooses the tasks of every step. It has no state: the results are in the checkpoints of the run."""

    def choose(self, choice: Choice) -> Sequence[int]:
        """Indices of different tasks among those that are offered, `choice.count` of them if there are so many."""
        ...


class Chosen:
    """Every step plays the tasks that a curriculum chooses.

    Args: offered: indices of the tasks to choose from; steps: of the run; lag: steps that are sampled ahead.
    """

    def __init__(
        self,
        curriculum: Curriculum,
        tasks: Sequence[Task],
        *,
        offered: Sequence[int],
        count: int,
        steps: int,
        lag: int,
        key: Key,
    ) -> None:
        self.curriculum, self.tasks, self.offered, self.key = curriculum, tasks, offered, key
        self.count, self.steps, self.lag = min(count, len(offered)), steps, lag
        self.results: list[Result] = []

    def of(self, step: int) -> Planned:
        """Raises: ConfigError E167 for a choice that is not `count` different tasks."""
        choice = Choice(
            step=step,
            steps=self.steps,
            count=self.count,
            offered=self.offered,
            results=tuple(result for result in self.results if result.step < step - self.lag),
            key=self.key.at("tasks", step=step),
        )
        indices = list(self.curriculum.choose(choice))
        if (
            len(set(indices)) != len(indices)
            or len(indices) != self.count
            or not all(index in self.offered for index in indices)
        ):
            raise ConfigError(
                "E167",
                f"{type(self.curriculum).__name__} did not choose {self.count} different tasks",
                where=f"step {step}",
                why=f"it chose {len(set(indices))} different ones of {len(self.offered)}: {indices[:8]}",
                fix="return choice.count different indices of choice.offered",
            )
        return [(index, self.tasks[index]) for index in indices], self.key.at("rollouts", step=step)

    def see(self, step: int, groups: Sequence[Group]) -> None:
        counts: dict[int, tuple[int, int]] = {}
        for group in groups:
            if group.judged and group.replayed is None and not group.continued:
                correct, rollouts = counts.get(group.index, (0, 0))
                right = sum(rollout.verdict.correct for rollout in group.rollouts)
                counts[group.index] = correct + right, rollouts + len(group.rollouts)
        self.results += [Result(step=step, task=task, correct=c, rollouts=n) for task, (c, n) in counts.items()]

    def save_state(self, folder: Path) -> None:
        rows = [[each.step, each.task, each.correct, each.rollouts] for each in self.results]
        (folder / FILE).write_text(json.dumps(rows), "utf-8")

    def load_state(self, folder: Path) -> None:
        rows = json.loads((folder / FILE).read_text("utf-8"))
        self.results = [Result(step=s, task=t, correct=c, rollouts=n) for s, t, c, n in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Chooses the tasks whose latest success rate lies within bounds, and new tasks for the rest of the step.

    If more tasks lie within the bounds than a step needs, it draws among them uniformly. If no new task is left, the
    others are drawn from the tasks outside, so their success rates are measured again.

    Source: bounds as in Bae et al. 2025, arXiv 2504.03380.
    Differs: bounds are applied to the latest visit of a task; there, to rollouts of the same step, which are dropped.
    """

    low: float
    high: float

    def choose(self, choice: Choice) -> list[int]:
        latest, random = choice.latest, choice.key.random()
        inside = [task for task, result in latest.items() if self.low <= result.success <= self.high]
        picks = random.sample(sorted(inside), min(choice.count, len(inside)))
        candidates = (
            choice.key.at("new").random().sample(choice.offered, min(choice.count + len(latest), len(choice.offered)))
        )
        picks += [task for task in candidates if task not in latest][: choice.count - len(picks)]
        outside = sorted(set(latest).difference(picks))
        return picks + choice.key.at("outside").random().sample(outside, choice.count - len(picks))


POOL = 16
"""Candidates of `EasiestFirst`, per task of a step. A split may be too large to compare all its tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EasiestFirst:
    """Chooses from the easiest tasks, whose fraction grows linearly over the run, up to all in the last step.

    Step k of S draws `POOL` candidates for every task that it needs, or all tasks if there are fewer. It then draws
    uniformly among the easiest of them, a fraction of (k + 1)/S, but at least as many as it needs.

    Source: Platanios et al. 2019 (competence-based curriculum), arXiv 1903.09848, with a linear schedule.
    """

    difficulty: Callable[[int], float]
    """Of the train task at an index."""

    def choose(self, choice: Choice) -> list[int]:
        size = min(POOL * choice.count, len(choice.offered))
        pool = choice.key.at("pool").random().sample(choice.offered, size)
        easiest = sorted(pool, key=self.difficulty)[: max(choice.count, -(-size * (choice.step + 1) // choice.steps))]
        return choice.key.random().sample(easiest, choice.count)
