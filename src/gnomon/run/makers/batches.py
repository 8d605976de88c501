"""When batches are sampled: as their steps begin, or ahead of them by engines of their own."""

from __future__ import annotations

from functools import partial

from gnomon.config import RunConfig
from gnomon.engines.base import Engine, Tier, Twinned
from gnomon.engines.threaded import Changeable, Renewing, Threaded
from gnomon.envs.base import Env
from gnomon.errors import ConfigError
from gnomon.learners.base import Learner
from gnomon.objectives import Objective
from gnomon.rollout.actor import Actor
from gnomon.rollout.batches import Ahead, Batches, InTurn
from gnomon.rollout.in_flight import InFlight
from gnomon.rollout.opponents import Against
from gnomon.rollout.order import TaskOrder
from gnomon.run.makers.actor import make_actor
from gnomon.run.recorded_runs import make_replay

__all__ = ["make_batches", "make_in_flight", "step_engine"]


def step_engine(config: RunConfig, engine: Engine) -> Engine:
    """The engine that samples the batches of the steps."""
    return make_in_flight(engine) if config.rollout.in_flight else engine


def make_in_flight(engine: Engine) -> Engine:
    """The engine, so that it loads weights while it samples. Its tier is `measured`, since the clock decides when."""
    if not isinstance(engine, Changeable):
        return engine
    engine.in_flight, engine.tier = True, Tier.MEASURED
    return engine if isinstance(engine, Renewing) else Threaded(engine)


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
    lag = config.ahead
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
    if config.rollout.in_flight and isinstance(actor.engine, Renewing):
        actors = [make(engine=actor.engine) for _ in range(lag + 1)]
        return InFlight(actor.engine, actors, config.budget.steps)
    if config.rollout.in_flight or not isinstance(actor.engine, Twinned):
        raise ConfigError(
            "E046",
            "rollout.lag needs the embedded engine",
            where=f"engine {type(actor.engine).__name__}",
            why="the batches that are sampled ahead have different weights, each in an engine of its own",
            fix="engine=embedded, or rollout.lag=0",
        )
    return Ahead([make(engine=actor.engine.twin(number)) for number in range(1, lag + 2)], config.budget.steps)
