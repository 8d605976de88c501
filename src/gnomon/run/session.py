"""From a start or a checkpoint until a run ends or is stopped; an evaluation without training."""

from __future__ import annotations

import errno
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch

from gnomon.config import RunConfig
from gnomon.engines.base import Grouping, Tier
from gnomon.envs.base import Env
from gnomon.errors import ResourceError
from gnomon.images import SHELF
from gnomon.keys import Key
from gnomon.rendering import Proven, Renderer
from gnomon.rollout.actor import Progress, no_progress
from gnomon.rollout.continuing import FailurePrefixes
from gnomon.rollout.played import Kept
from gnomon.rollout.replay import Replay
from gnomon.run.display import Console, Guarded, Phase, no_phase
from gnomon.run.interrupt import gentle_interrupt
from gnomon.run.loops import run_to_end
from gnomon.run.losses import Losing, Losses
from gnomon.run.makers import make_observers
from gnomon.run.mismatch import finer
from gnomon.run.parts import Parts, here, open_parts
from gnomon.store import Observer, RecordedGroups, Run, RunStatus
from gnomon.store.layout import IMAGES
from gnomon.training import Evaluation, Recorder, evaluate, first, train
from gnomon.types import Task

__all__ = ["measure", "memory_errors", "numerics", "task_at", "train_until_stopped"]


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
    if (format_text := continuation(parts.actor.renderer)) and parts.actor.env.max_turns != 1:
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
        with gentle_interrupt(recorder), memory_errors(store.folder), SHELF.keep_in(store.folder / IMAGES):
            run_to_end(loop)
    except BaseException as error:
        recorder.report_end(RunStatus.FAILED if isinstance(error, Exception) else RunStatus.INTERRUPTED)
        raise


def continuation(renderer: Renderer) -> str:
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


def measure(
    config: RunConfig, progress: Progress = no_progress, phase: Phase = no_phase, env: Env | None = None
) -> dict[str, Evaluation]:
    """The policy's evaluation on held-out tasks, under an empty name, and those of the evaluation sets.

    Nothing is trained, so the learner is in this process.
    """
    key = Key(config.seed)
    with open_parts(here(config), env, progress, phase=phase) as parts:
        parts.engine.load(parts.learner.publish())
        held_out = first(parts.env.tasks("test"), config.eval.tasks)
        main = run_to_end(evaluate(parts.actor, held_out, key.at("eval"), config.eval))
        return {"": main, **{each.name: run_to_end(each.evaluate(key, parts.actor)) for each in parts.sets}}


WORDS = ("can't allocate memory", "not enough memory", "CUDA out of memory", "could not create a primitive")
"""Of messages without a class of their own, on a CPU: those of torch and, the last, of oneDNN, which has no other."""


@contextmanager
def memory_errors(folder: Path) -> Iterator[None]:
    """Args: folder: of the run. Raises: ResourceError E513 where memory is used up in the body."""
    try:
        yield
    except (MemoryError, RuntimeError, OSError) as error:
        if not used_up(error):
            raise
        path = shlex.quote(str(folder))
        raise ResourceError(
            "E513",
            "the run has used up its memory",
            where=str(folder),
            why=f"{str(error).partition(chr(10))[0] or 'MemoryError'}; all recorded steps are intact",
            fix=f"free memory, then: gnomon resume {path}; if it happens again, start a run with a lower "
            "optim.micro_batch or workers.count, or with policy.activation_checkpointing=true",
        ) from error


def used_up(error: Exception) -> bool:
    """Whether an error says that memory is used up."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return any(words in str(error) for words in WORDS)
