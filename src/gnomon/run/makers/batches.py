"""When batches are sampled: as their steps begin, or ahead of them by engines of their own."""

from __future__ import annotations

from functools import partial

from gnomon.config import RunConfig
from gnomon.engines.base import Engine
from gnomon.engines.embedded import Embedded
from gnomon.engines.remote import RemoteEngine
from gnomon.engines.threaded import Threaded
from gnomon.envs.base import Env
from gnomon.errors import ConfigError
from gnomon.learners.base import Learner
from gnomon.learners.local import LocalLearner
from gnomon.objectives import Objective
from gnomon.rollout.actor import Actor
from gnomon.rollout.batches import Ahead, Batches, InTurn
from gnomon.rollout.in_flight import InFlight
from gnomon.rollout.opponents import Against
from gnomon.rollout.order import TaskOrder
from gnomon.run.makers.actor import make_actor
from gnomon.run.makers.engine import make_embedded
from gnomon.run.recorded_runs import make_replay

__all__ = ["make_batches"]


def make_batches(
    config: RunConfig, env: Env, row: Objective, actor: Actor, learner: Learner, order: TaskOrder | None = None
) -> Batches:
    """Args: actor: the one that evaluates; those that sample ahead share its workers.

    Raises: ConfigError E046 for a lag with an engine that cannot be made several times.
    """
    return make_replay(config, env, make_sampled(config, env, row, actor, learner, order))


def make_sampled(
    config: RunConfig, env: Env, row: Objective, actor: Actor, learner: Learner, order: TaskOrder | None
) -> Batches:
    """The batches of what is sampled."""
    lag = min(config.rollout.lag, config.budget.steps)
    if not lag:
        return InTurn(actor)
    past = actor.speakers.past if isinstance(actor.speakers, Against) else None
    make = partial(
        make_actor,
        config,
        env,
        row,
        tokenizer=actor.tokenizer,
        renderer=actor.renderer,
        learner=learner,
        workers=actor.workers,
        order=order,
        past=past,
    )
    if config.rollout.in_flight and isinstance(actor.engine, Threaded | RemoteEngine):
        actors = [make(engine=actor.engine) for _ in range(lag + 1)]
        thread = actor.engine.thread if isinstance(actor.engine, Threaded) else None
        return InFlight(actor.engine, actors, config.budget.steps, thread)
    if config.rollout.in_flight or not isinstance(actor.engine, Embedded | RemoteEngine):
        raise ConfigError(
            "E046",
            "rollout.lag needs the embedded engine",
            where=f"engine {type(actor.engine).__name__}",
            why="the batches that are sampled ahead have different weights, each in an engine of its own",
            fix="engine=embedded, or rollout.lag=0",
        )
    engines = [twin(actor.engine, number, config, learner) for number in range(1, lag + 2)]
    return Ahead([make(engine=engine) for engine in engines], config.budget.steps)


def twin(engine: Embedded | RemoteEngine, number: int, config: RunConfig, learner: Learner) -> Engine:
    """Another engine with the same settings, on the tier that was measured. Args: number: of it, from 1."""
    if isinstance(engine, RemoteEngine):
        return engine.twin(number)
    engine_twin = make_embedded(config, learner)
    engine_twin.tier = engine.tier
    if isinstance(learner, LocalLearner):
        engine_twin.policy.share_base(learner.policy)
    return engine_twin
