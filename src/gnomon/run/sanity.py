"""Judge an objective: train on tasks that the policy solves sometimes, and read the curve. Nearly all rollouts must
become correct."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gnomon.config import RunConfig
from gnomon.engines.base import Sleeping
from gnomon.errors import ConfigError
from gnomon.keys import Key
from gnomon.objectives import Data
from gnomon.rollout.actor import Actor
from gnomon.run.display import Console
from gnomon.run.loops import run_to_end
from gnomon.run.parts import Parts, here, open_parts
from gnomon.run.start import start
from gnomon.store.checkpoints import checkpoint_folders
from gnomon.training.evaluate import first
from gnomon.types import Conclusion, Task

__all__ = ["BAND", "OWN", "PASS_AT", "ROLLOUTS", "WINDOW", "Sanity", "gate", "sanity", "share_correct", "solvable"]

FEWEST = 8
"""Tasks on which an objective can be judged."""


def sanity(folder: Path, config: RunConfig, console: Console, *, candidates: int, keep: int) -> Sanity:
    """Find tasks that the policy solves sometimes, train on those alone in a new run, and judge its curve.

    An objective may train on tokens that the policy did not sample. Then the curve is that of the policy's own answers
    to the same tasks: after the run, and a window of steps before its end.
    Raises: ConfigError E038 when fewer than eight of the candidates are solved sometimes, E076 for too few steps.
    """
    if config.budget.steps < 2 * WINDOW:
        raise ConfigError(
            "E076",
            f"a sanity run of {config.budget.steps} steps cannot be judged",
            where="steps",
            why=f"the verdict compares its last {WINDOW} steps with the {WINDOW} before",
            fix=f"steps={2 * WINDOW} or more; the default is 80",
        )
    with open_parts(here(config), progress=console.progress, phase=console.phase) as parts:
        return judgement(folder, config, parts, console, candidates, keep)


def judgement(folder: Path, config: RunConfig, parts: Parts, console: Console, candidates: int, keep: int) -> Sanity:
    """What the gate says of a run on the tasks that the policy solves sometimes."""
    indices = sometimes_solved(config, parts, console, candidates)[:keep]
    if isinstance(parts.engine, Sleeping):
        parts.engine.sleep()  # The run that follows has an engine of its own.
    prefilled = parts.objective.data in (Data.SPLICED, Data.DEMONSTRATED, Data.MIXED)
    rollout = config.rollout.model_copy(update={"tasks": sorted(indices)})
    save = config.save.model_copy(update={"every": WINDOW, "keep": 2} if prefilled else {})
    with start(folder, config.model_copy(update={"rollout": rollout, "save": save}), console) as reader:
        right = [step["metrics"]["correct"] for step in reader.metrics()]
    if prefilled and len(right) >= 2 * WINDOW:
        console.message(
            f"Playing the {len(indices)} tasks {OWN} times each: the training tokens were partly prefilled."
        )
        right = own_answers(folder, config, parts, sorted(indices), right)
    return gate(right, tasks=len(indices), candidates=candidates)


def sometimes_solved(config: RunConfig, parts: Parts, console: Console, candidates: int) -> list[int]:
    """Indices of the tasks that the policy solves sometimes. Raises: ConfigError E038."""
    parts.actor.engine.load(parts.learner.publish())
    low, high = BAND
    console.message(
        f"Playing {candidates} tasks {ROLLOUTS} times each, to find those solved in {low:.0%} to {high:.0%}."
    )
    offered = first(parts.env.tasks("train"), candidates)
    solved = run_to_end(solvable(parts.actor, offered, Key(config.seed).at("sanity")))
    if len(solved) < FEWEST:
        raise ConfigError(
            "E038",
            f"the policy solves only {len(solved)} of {candidates} tasks sometimes",
            where=f"{config.env.type} with {config.policy.path}",
            why="an objective cannot be judged on tasks that are always or never solved",
            fix="more candidates with --candidates 1024, an easier env.*, or another policy=",
        )
    return solved


def own_answers(
    folder: Path, config: RunConfig, parts: Parts, indices: Sequence[int], right: Sequence[float]
) -> list[float]:
    """The curve, its last two windows replaced by the share of right ones among the policy's own answers."""
    curve, tasks = list(right), parts.env.tasks("train")
    pairs, key = [(index, tasks[index]) for index in indices], Key(config.seed).at("sanity", after=len(right))
    last, before = checkpoint_folders(folder)[:2]
    for checkpoint, end in ((before, len(right) - WINDOW), (last, len(right))):
        parts.learner.load_state(checkpoint)
        parts.actor.engine.load(parts.learner.publish())
        curve[end - WINDOW : end] = [run_to_end(share_correct(parts.actor, pairs, key))] * WINDOW
    return curve


ROLLOUTS = 40
"""Rollouts per candidate task."""
OWN = 20
"""Rollouts per task if the trained rollouts are not the policy's own answers."""
BAND = (0.2, 0.8)
"""Range of the fraction of correct rollouts for a task to be kept."""
PASS_AT = 0.95
"""Fraction of correct rollouts at the end of training that is needed to pass."""
WINDOW = 5
"""Number of steps over which that fraction is measured."""
RISING = 0.02
"""Smallest increase between the last two windows that makes the result inconclusive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sanity:
    """The result of the check."""

    gate: Conclusion
    """INCONCLUSIVE: below the threshold, and still increasing at the end of the budget."""
    tasks: int
    """Number of kept tasks, of `candidates`."""
    candidates: int
    right: float
    """Fraction of correct rollouts over the last steps."""
    before: float
    """The same, one window earlier."""
    steps: int

    def __str__(self) -> str:
        low, high = BAND
        return (
            f"{self.gate.value}  after {self.steps} steps {self.right:.3f} of the training rollouts are correct; "
            f"PASS needs {PASS_AT}\n"
            f"{self.tasks} of {self.candidates} tasks, solved in {low:.0%} to {high:.0%} of {ROLLOUTS} rollouts"
        )


async def solvable(actor: Actor, candidates: Sequence[tuple[int, Task]], key: Key) -> list[int]:
    """Indices of the tasks that the current policy sometimes solves."""
    low, high = BAND
    groups = await actor.rollouts(candidates, key, ROLLOUTS)
    shares = [sum(rollout.verdict.correct for rollout in group.rollouts) / ROLLOUTS for group in groups]
    return [group.index for group, share in zip(groups, shares, strict=True) if low <= share <= high]


async def share_correct(actor: Actor, tasks: Sequence[tuple[int, Task]], key: Key) -> float:
    """The fraction of correct answers among the policy's own."""
    groups = await actor.rollouts(tasks, key, OWN)
    return sum(rollout.verdict.correct for group in groups for rollout in group.rollouts) / (OWN * len(groups))


def conclusion(last: float, before: float) -> Conclusion:
    if last >= PASS_AT:
        return Conclusion.PASS
    return Conclusion.INCONCLUSIVE if last - before > RISING else Conclusion.FAIL


def gate(right: Sequence[float], *, tasks: int, candidates: int) -> Sanity:
    """The verdict on a curve.

    Args: right: share of right training rollouts, step by step.
    Raises: ValueError for fewer steps than two windows.
    """
    if len(right) < 2 * WINDOW:
        raise ValueError(f"the gate reads two windows of {WINDOW} steps, and the run has {len(right)} steps")
    last, before = (sum(part) / WINDOW for part in (right[-WINDOW:], right[-2 * WINDOW : -WINDOW]))
    verdict = conclusion(last, before)
    return Sanity(gate=verdict, tasks=tasks, candidates=candidates, right=last, before=before, steps=len(right))
