"""Compare finished runs: which settings differ, and by how much held-out pass@1 does.

The unit is the seed. Where all runs of two groups met the same held-out tasks, a second interval holds for other tasks
too. Where two groups share one seed alone, the different held-out tasks are the units, each with the same weight, and
the interval holds for these two runs only.
"""

from __future__ import annotations

import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnomon.comparison.measures import final_of
from gnomon.comparison.statistics import ALPHA, Estimate, estimate, estimate_crossed
from gnomon.config import leaves
from gnomon.errors import RunError
from gnomon.store import RunReader
from gnomon.store.compare import ABSENT
from gnomon.store.layout import of_set

__all__ = ["Compared", "Runs", "compare_groups", "comparison_text", "group_runs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Finished runs whose settings differ in the seed alone."""

    settings: Mapping[str, Any]
    """Dotted keys, without the seed."""
    folders: Mapping[int, Path]
    """By seed."""
    finals: Mapping[int, float]
    """Held-out pass@1 after training, by seed."""
    correct: Mapping[int, Mapping[str, float]]
    """By seed and id of a held-out task, the fraction of correct replies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One group of runs less the first."""

    changed: Mapping[str, tuple[Any, Any]]
    """Settings that differ, with the first group's value and this one's."""
    seeds: Sequence[int]
    """Shared by both."""
    unit: str
    """`seeds` or `tasks`; empty where they share no seed."""
    difference: Estimate | None
    new_tasks: Estimate | None
    """The same over seeds and tasks; None for one seed, and where the seeds did not meet the same tasks."""


def group_runs(folders: Sequence[Path], name: str = "") -> list[Runs]:
    """Runs by their settings, in the order of the first of each.

    Args: name: of the evaluation set to compare; empty for the main evaluation.

    Raises: RunError E429 for a run without a final evaluation, and for two runs of equal settings and seed.
    """
    groups: dict[str, dict[int, tuple[Path, float, dict[str, float]]]] = {}
    settings: dict[str, dict[str, Any]] = {}
    for folder in folders:
        with RunReader(folder) as reader:
            if name and name not in reader.sets:
                names = f"it has {', '.join(reader.sets) or 'none'}"
                raise RunError("E429", f"the run has no evaluation set {name}", where=str(folder), fix=names)
            if not reader.complete or reader.held_out is None:
                fix = f"gnomon resume {folder}"
                raise RunError("E429", "the run has not finished, so it cannot be compared", where=str(folder), fix=fix)
            own = {key: value for key, value in leaves(tomllib.loads(reader.recipe)).items() if value != {}}
            seed, key = int(own.pop("seed")), repr(sorted(own.items()))
            group = groups.setdefault(key, {})
            if seed in group:
                why = f"the other is {group[seed][0]}"
                fix = "leave out one of them"
                raise RunError("E429", "two runs have the same settings and seed", where=str(folder), why=why, fix=fix)
            group[seed], settings[key] = (folder, final_of(name)(reader), correct_by_task(reader, name)), own
    return [
        Runs(
            settings=settings[key],
            folders={seed: run[0] for seed, run in group.items()},
            finals={seed: run[1] for seed, run in group.items()},
            correct={seed: run[2] for seed, run in group.items()},
        )
        for key, group in groups.items()
    ]


def correct_by_task(reader: RunReader, name: str = "", at: int = -1) -> dict[str, float]:
    """Fraction of correct replies at an evaluation, by id of the held-out task.

    Args: at: 0 for the baseline, −1 for the last.
    """
    kind = of_set("held_out", name)
    steps = reader.steps_with([kind])
    step = steps[at] if steps else None
    ids = {record.task: record.body["id"] for record in reader.records("task", step) if record.body["of"] == kind}
    replies: dict[str, list[bool]] = {}
    for row in reader.rollout_rows(step, kind=kind) if steps else ():
        if row.task is not None:
            replies.setdefault(ids[row.task], []).append(row.status == "correct")
    return {task: statistics.fmean(right) for task, right in replies.items()}


def compare_groups(groups: Sequence[Runs]) -> list[Compared]:
    """Every group against the first. All intervals together have an error of 5 %."""
    first, alpha = groups[0], ALPHA / max(1, len(groups) - 1)
    result = []
    for other in groups[1:]:
        keys = sorted(first.settings.keys() | other.settings.keys())
        pairs = {key: (first.settings.get(key), other.settings.get(key)) for key in keys}
        seeds = sorted(first.finals.keys() & other.finals.keys())
        if len(seeds) > 1:
            unit, values = "seeds", [other.finals[seed] - first.finals[seed] for seed in seeds]
        else:
            unit, values = "tasks", [
                other.correct[seed][task] - first.correct[seed][task]
                for seed in seeds
                for task in sorted(first.correct[seed].keys() & other.correct[seed].keys())
            ]  # fmt: skip
        result.append(
            Compared(
                changed={key: pair for key, pair in pairs.items() if pair[0] != pair[1]},
                seeds=seeds,
                unit=unit if values else "",
                difference=estimate(values, alpha) if values else None,
                new_tasks=over_tasks(first, other, seeds, alpha),
            )
        )
    return result


def over_tasks(first: Runs, other: Runs, seeds: Sequence[int], alpha: float) -> Estimate | None:
    """The difference with an interval over seeds and tasks, each different task with the same weight."""
    met = [set(group.correct[seed]) for group in (first, other) for seed in seeds]
    if len(seeds) < 2 or len(met[0]) < 2 or any(tasks != met[0] for tasks in met):
        return None
    tasks = sorted(met[0])
    table = [[other.correct[seed][task] - first.correct[seed][task] for task in tasks] for seed in seeds]
    return estimate_crossed(table, alpha)


def comparison_text(groups: Sequence[Runs], comparisons: Sequence[Compared]) -> str:
    """For a terminal: the groups, then the difference of each to the first."""
    lines = []
    for letter, group in zip(letters(), groups, strict=False):
        mean = statistics.fmean(group.finals.values())
        runs = list(map(str, group.folders.values()))
        more = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
        lines.append(f"{letter}  pass@1 {mean:.3f}  {runs[0]}{more}")
    for letter, other in zip(letters()[1:], comparisons, strict=False):
        changes = ", ".join(f"{key} {value_text(a)} → {value_text(b)}" for key, (a, b) in other.changed.items())
        lines += ["", f"{letter} − A: {changes}", f"  {difference_text(other)}"]
        if any(key.startswith(("env.", "eval.")) for key in other.changed):
            lines.append("  The held-out tasks or their verifier may differ, which changes the difference too.")
    return "\n".join(
        [*lines, "", "No pass line was registered before these runs, so this comparison does not decide a claim."]
    )


def difference_text(other: Compared) -> str:
    if other.difference is None:
        return "no seed is shared, so nothing can be paired"
    interval = other.difference
    what = (
        f"{interval.mean:+.4f} [{interval.low:+.4f}, {interval.high:+.4f}], {100 * interval.level:.4g} % interval over"
    )
    if other.unit == "seeds":
        return f"{what} {interval.seeds} seeds{new_tasks_text(other.new_tasks)}"
    return f"{what} {interval.seeds} different tasks, for this seed alone: another seed may differ by more"


def new_tasks_text(interval: Estimate | None) -> str:
    return f"; [{interval.low:+.4f}, {interval.high:+.4f}] for other tasks too" if interval else ""


def value_text(value: Any) -> str:
    return ABSENT if value is None else str(value)


def letters() -> str:
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
