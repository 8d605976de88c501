"""The parts of a run: environment, sampler, learner and what joins them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from gnomon.config import RunConfig
from gnomon.config.placement import EngineKind, LearnerPlace
from gnomon.engines.base import Engine
from gnomon.engines.remote import RemoteEngine
from gnomon.envs.base import Env, check_isolation
from gnomon.learners.base import Closing, Learner
from gnomon.learners.credit import Crediting
from gnomon.models.folder import model_folder
from gnomon.models.tokenizer import Tokenizer
from gnomon.objectives import Objective
from gnomon.rendering import Renderer, choose
from gnomon.rollout.actor import Actor, Progress, no_progress
from gnomon.rollout.batches import Batches
from gnomon.rollout.conversation import beginning
from gnomon.rollout.order import TaskOrder
from gnomon.run.display import Phase, no_phase
from gnomon.run.find import make_env
from gnomon.run.makers import (
    compare_with_learner,
    make_actor,
    make_batches,
    make_credit,
    make_engine,
    make_learner,
    make_objective,
    make_order,
    make_schedule,
    make_tasks,
    make_workers,
    step_engine,
)
from gnomon.run.makers.cluster import make_cluster_learner, make_fleet
from gnomon.run.makers.engine import alternating, share_base
from gnomon.run.makers.held_out import close_sets, make_sets
from gnomon.run.makers.policy import with_attention
from gnomon.run.makers.served import make_served
from gnomon.run.makers.sight import require_room_for_images
from gnomon.run.makers.tinker import make_tinker_learner
from gnomon.run.own_parts import NOTHING, OwnParts
from gnomon.run.ranks import start_ranks
from gnomon.run.recorded_runs import require_replay
from gnomon.run.token_budgets import require_token_budgets
from gnomon.training import EvaluationSet
from gnomon.training.schedule import Schedule

if TYPE_CHECKING:
    from gnomon_ray.fleet import RayFleet

__all__ = ["Parts", "build", "close", "here", "make_trainer", "open_parts", "sampler"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the training loop takes."""

    env: Env
    """What is trained on; it may hold only some tasks of the environment."""
    actor: Actor
    batches: Batches
    order: TaskOrder
    learner: Learner
    objective: Objective
    credit: Crediting
    schedule: Schedule
    mismatch: float | None
    """Largest difference between a sampled and a scored log-probability, measured before the run; None for an engine
    that was passed as an object, which declares its tier."""
    fleet: RayFleet | None = None
    """The samplers in a cluster, if there are any."""
    sets: list[EvaluationSet]
    """The evaluations beside the main one."""

    @property
    def engine(self) -> Engine:
        return self.actor.engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """Learner and engine, and the difference of their log-probabilities."""

    learner: Learner
    engine: Engine
    mismatch: float | None
    fleet: RayFleet | None


def build(
    config: RunConfig,
    env: Env | None = None,
    progress: Progress = no_progress,
    own: OwnParts = NOTHING,
    *,
    phase: Phase = no_phase,
) -> Parts:
    """The parts of a run, each with its own copy of the policy. Args: own: parts that exist already."""
    torch.set_num_threads(1)  # Settings divide work among threads of Gnomon's own.
    config = with_attention(config)
    env = make_env(config.env) if env is None else env
    check_isolation(env)
    tokenizer = Tokenizer(model_folder(config.policy.path))
    judging_turns = config.rollout.judged_by == "policy"  # The question about a reply is one more turn.
    renderer = choose(tokenizer, config.policy.renderer, turns=env.max_turns + judging_turns)
    row = make_objective(config, own.objective)
    tasks = playable_tasks(config, env, row, renderer)
    with ExitStack() as undo:
        policies = make_policies(config, env, tasks, row, renderer, own, phase, undo)
        workers = make_workers(config, env)
        undo.callback(workers.close)
        order = make_order(config, tasks, tokenizer, own.curriculum)
        actor = make_actor(
            config,
            tasks,
            row,
            policies.engine,
            tokenizer,
            renderer,
            policies.learner,
            workers=workers,
            order=order,
            progress=progress,
        )
        parts = Parts(
            env=tasks,
            actor=actor,
            batches=make_batches(config, tasks, row, actor, policies.learner, order),
            order=order,
            learner=policies.learner,
            objective=row,
            credit=make_credit(config, tasks, row, renderer),
            schedule=make_schedule(config),
            mismatch=policies.mismatch,
            fleet=policies.fleet,
            sets=make_sets(config, env, actor),
        )
        undo.pop_all()
    return parts


def playable_tasks(config: RunConfig, env: Env, row: Objective, renderer: Renderer) -> Env:
    """The environment with the tasks of the run. Raises: why they cannot be played, before a policy is loaded."""
    require_token_budgets(config, env, row)
    tasks = make_tasks(config, env, row)
    if env.max_turns == 1:  # A prompt that the renderer refuses is refused before anything is made.
        beginning(env, renderer)(tasks.tasks("train")[0].messages)
    require_room_for_images(config, tasks.tasks("train")[0])
    require_replay(config, tasks, row)
    return tasks


def make_policies(
    config: RunConfig,
    env: Env,
    tasks: Env,
    row: Objective,
    renderer: Renderer,
    own: OwnParts,
    phase: Phase,
    undo: ExitStack,
) -> Policies:
    """Learner and engine, compared with each other. Args: undo: closes what was made, if a later part fails."""
    with phase("loading the policy"):
        learner = own.learner or make_trainer(config, row)
    if not own.learner:
        undo.callback(close, learner)
    fleet = make_fleet(config, env, tasks) if config.placement.samplers else None
    if fleet:
        undo.callback(fleet.close)
    with phase("comparing sampler and learner"):
        engine, mismatch = (own.engine, None) if own.engine else sampler(config, env, renderer, learner, fleet)
    if not own.engine:
        undo.callback(engine.close)
    share_base(engine, learner)
    learner = alternating(learner, engine)
    engine = engine if own.engine else step_engine(config, engine)
    return Policies(learner=learner, engine=engine, mismatch=mismatch, fleet=fleet)


@contextmanager
def open_parts(
    config: RunConfig,
    env: Env | None = None,
    progress: Progress = no_progress,
    own: OwnParts = NOTHING,
    *,
    phase: Phase = no_phase,
) -> Iterator[Parts]:
    """The parts of a run while it lasts. An engine and a learner that were made for it are closed at the end."""
    parts = build(config, env, progress, own, phase=phase)
    try:
        yield parts
    finally:
        parts.batches.close()
        close_sets(parts.sets, parts.actor)
        if own.engine is None:
            parts.engine.close()
        if parts.fleet is not None:
            parts.fleet.close()
        if own.learner is None:
            close(parts.learner)


def make_trainer(config: RunConfig, row: Objective) -> Learner:
    """The learner of the settings: in this process or processes of its own, in a cluster, on a server or a service."""
    match config.placement.learner:
        case LearnerPlace.SERVER:
            return make_served(config)
        case LearnerPlace.SERVICE:
            return make_tinker_learner(config, row)
        case LearnerPlace.CLUSTER:
            return make_cluster_learner(config, row)
        case _:
            return start_ranks(config, row) if config.ranks else make_learner(config, row)


def sampler(
    config: RunConfig, env: Env, renderer: Renderer, learner: Learner, fleet: RayFleet | None = None
) -> tuple[Engine, float]:
    """The engine, and the largest difference in log-probability between it and the learner."""
    engine = make_engine(config, learner) if fleet is None else RemoteEngine(fleet)
    try:
        return engine, compare_with_learner(engine, alternating(learner, engine), renderer, env, config)
    except BaseException:
        engine.close()
        raise


def here(config: RunConfig) -> RunConfig:
    """The settings with learner and sampler in this process."""
    launch = config.launch.model_copy(update={"type": "local"})
    engine = config.engine.model_copy(
        update={"type": "embedded"} if config.placement.engine is EngineKind.SERVICE else {}
    )
    return config.model_copy(update={"learner": "local", "ranks": 0, "launch": launch, "engine": engine})


def close(learner: Learner) -> None:
    """End the processes of a learner that has any."""
    if isinstance(learner, Closing):
        learner.close()
