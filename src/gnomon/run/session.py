"""From a start or a checkpoint until a run ends or is stopped."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from gnomon.config import RunConfig
from gnomon.engines.base import Grouping, Tier
from gnomon.envs.base import Env
from gnomon.images import SHELF
from gnomon.rendering import Proven, Renderer
from gnomon.rollout.continuing import FailurePrefixes
from gnomon.rollout.finished import Kept
from gnomon.rollout.replay import Replay
from gnomon.run.display import Console, Guarded
from gnomon.run.interrupt import gentle_interrupt
from gnomon.run.loops import finished
from gnomon.run.losses import Losing, Losses
from gnomon.run.makers import (
    make_observers,
)
from gnomon.run.memory import memory_errors
from gnomon.run.mismatch_advice import finer
from gnomon.run.parts import Parts
from gnomon.store import Observer, RecordedGroups, Run, RunStatus
from gnomon.store.layout import IMAGES
from gnomon.training import Recorder, train
from gnomon.types import Task

__all__ = ["numerics", "task_at", "train_until_stopped"]


def train_until_stopped(
    store: Run, config: RunConfig, parts: Parts, console: Console, observers: Sequence[Observer]
) -> None:
    """Train, record and observe until the run ends or is stopped."""
    tell = Guarded(console).message
    tokenizer = parts.actor.tokenizer
    if losing := [part for part in (parts.fleet, parts.learner) if isinstance(part, Losing)]:
        observers = [*observers, Losses(losing, tell, store.note)]
    watching = make_observers(
        store, parts.env, parts.objective, tokenizer, console, tell, observers, finer=finer(config)
    )
    recorder = Recorder(store, config, watching, tell)
    for actor in (parts.actor, *parts.batches.actors, *(each.actor for each in parts.sets)):
        actor.finished = Kept(store.unfinished)
    for part in (parts.batches, parts.order):
        if isinstance(part, Replay | FailurePrefixes):
            part.own = RecordedGroups(store.folder, config.seed, partial(task_at, parts.env))
    tell(numerics(parts.engine.tier, parts.mismatch))
    if (format_text := continued(parts.actor.renderer)) and parts.actor.env.max_turns != 1:
        tell(format_text)
    if isinstance(parts.engine, Grouping) and parts.engine.grouping:
        tell(parts.engine.grouping)
    loop = train(
        config,
        env=parts.env,
        actor=parts.actor,
        batches=parts.batches,
        order=parts.order,
        learner=parts.learner,
        objective=parts.objective,
        credit=parts.credit,
        schedule=parts.schedule,
        run=recorder,
        sets=parts.sets,
    )
    try:
        with gentle_interrupt(recorder), memory_errors(store.folder), SHELF.opened(store.folder / IMAGES):
            finished(loop)
    except BaseException as error:
        recorder.ended(RunStatus.FAILED if isinstance(error, Exception) else RunStatus.INTERRUPTED)
        raise


def continued(renderer: Renderer) -> str:
    """The same, for the reader of a run."""
    if not isinstance(renderer, Proven):
        return ""
    proof = renderer.proof
    rewrites = f" It {', and '.join(proof.rewrites)}: a fork." if proof.rewrites else " It only appends."
    return f"Chat format: the model's template, proven on {proof.shapes} conversations.{rewrites}"


def numerics(tier: Tier, mismatch: float | None) -> str:
    """What was measured before the run, for its reader."""
    if mismatch is None:
        return f"Tier {tier.value}, as the engine declares; every step records its largest difference."
    if tier is Tier.EXACT:
        return "Tier exact: log-probabilities of sampler and learner are equal in every bit."
    return (
        f"Tier measured: log-probabilities of sampler and learner differ by up to {mismatch:.2g}. "
        "This run does not require equal bits; every step records its largest difference (docs/numerics.md)."
    )


def task_at(env: Env, split: str, index: int) -> Task:
    return env.tasks(split)[index]
