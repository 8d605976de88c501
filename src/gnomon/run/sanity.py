"""Judge an objective: train on tasks that the policy solves sometimes, and read the curve."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gnomon.config import RunConfig
from gnomon.engines.base import Sleeping
from gnomon.errors import ConfigError
from gnomon.keys import Key
from gnomon.objectives import Data
from gnomon.run.display import Console
from gnomon.run.loops import finished
from gnomon.run.parts import Parts, built, here
from gnomon.run.start import start
from gnomon.store.checkpoints import checkpoint_folders
from gnomon.training.evaluate import first
from gnomon.training.sanity import BAND, OWN, ROLLOUTS, WINDOW, Sanity, answered, gate, solvable

__all__ = ["sanity"]

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
    with built(here(config), progress=console.progress, phase=console.phase) as parts:
        return judged(folder, config, parts, console, candidates, keep)


def judged(folder: Path, config: RunConfig, parts: Parts, console: Console, candidates: int, keep: int) -> Sanity:
    """What the gate says of a run on the tasks that the policy solves sometimes."""
    kept = sometimes_solved(config, parts, console, candidates)[:keep]
    if isinstance(parts.engine, Sleeping):
        parts.engine.sleep()  # The run that follows has an engine of its own.
    prefilled = parts.objective.data in (Data.SPLICED, Data.DEMONSTRATED, Data.MIXED)
    chosen = config.rollout.model_copy(update={"tasks": sorted(kept)})
    save = config.save.model_copy(update={"every": WINDOW, "keep": 2} if prefilled else {})
    with start(folder, config.model_copy(update={"rollout": chosen, "save": save}), console) as reader:
        right = [step["metrics"]["correct"] for step in reader.metrics()]
    if prefilled and len(right) >= 2 * WINDOW:
        console.message(f"Playing the {len(kept)} tasks {OWN} times each: the training tokens were partly prefilled.")
        right = own_answers(folder, config, parts, sorted(kept), right)
    return gate(right, tasks=len(kept), candidates=candidates)


def sometimes_solved(config: RunConfig, parts: Parts, console: Console, candidates: int) -> list[int]:
    """Indices of the tasks that the policy solves sometimes. Raises: ConfigError E038."""
    parts.actor.engine.load(parts.learner.publish())
    low, high = BAND
    console.message(
        f"Playing {candidates} tasks {ROLLOUTS} times each, to find those solved in {low:.0%} to {high:.0%}."
    )
    offered = first(parts.env.tasks("train"), candidates)
    found = finished(solvable(parts.actor, offered, Key(config.seed).at("sanity")))
    if len(found) < FEWEST:
        raise ConfigError(
            "E038",
            f"the policy solves only {len(found)} of {candidates} tasks sometimes",
            where=f"{config.env.type} with {config.policy.path}",
            why="an objective cannot be judged on tasks that are always or never solved",
            fix="more candidates with --candidates 1024, an easier env.*, or another policy=",
        )
    return found


def own_answers(
    folder: Path, config: RunConfig, parts: Parts, kept: Sequence[int], right: Sequence[float]
) -> list[float]:
    """The curve, its last two windows replaced by the share of right ones among the policy's own answers."""
    curve, tasks = list(right), parts.env.tasks("train")
    asked, key = [(index, tasks[index]) for index in kept], Key(config.seed).at("sanity", after=len(right))
    last, before = checkpoint_folders(folder)[:2]
    for checkpoint, end in ((before, len(right) - WINDOW), (last, len(right))):
        parts.learner.load_state(checkpoint)
        parts.actor.engine.load(parts.learner.publish())
        curve[end - WINDOW : end] = [finished(answered(parts.actor, asked, key))] * WINDOW
    return curve
