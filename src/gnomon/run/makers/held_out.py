"""The evaluation sets of a run: each has an environment, workers and an actor of its own, and the engine of the run."""

from __future__ import annotations

from dataclasses import replace

from gnomon.config import Env as EnvConfig
from gnomon.config import RunConfig
from gnomon.envs import offers
from gnomon.envs.base import Env, check_isolation
from gnomon.rendering import choose
from gnomon.rollout.actor import Actor
from gnomon.rollout.speakers import Own
from gnomon.run.evaluation_envs import set_envs
from gnomon.run.makers.actor import make_limits, make_sampling
from gnomon.run.makers.workers import make_workers
from gnomon.store.layout import of_set
from gnomon.training.evaluate import EvaluationSet

__all__ = ["close_sets", "make_sets"]


def make_sets(config: RunConfig, env: Env, main: Actor) -> list[EvaluationSet]:
    """Args: env: of the run; main: the actor of the main evaluation.

    A set in the environment of the run shares its workers, and its place in a cluster.
    """
    return [
        EvaluationSet(name=name, actor=make_set_actor(config, name, spec, its, main), config=config.eval.of(name))
        for name, spec, its in set_envs(config, env)
    ]


def make_set_actor(config: RunConfig, name: str, spec: EnvConfig, env: Env, main: Actor) -> Actor:
    """An actor that plays an evaluation set. Args: spec: settings of its environment `env`."""
    same = spec == config.env
    offers.require_offers(env)
    check_isolation(env)
    workers = main.workers if same else make_workers(config, env)
    renderer = choose(main.tokenizer, config.policy.renderer, turns=env.max_turns)
    alike = workers.players == main.workers.players
    return Actor(
        env,
        main.tokenizer,
        main.engine,
        group=config.eval.sets[name].samples,
        sampling=replace(make_sampling(config), temperature=config.eval.sets[name].temperature),
        renderer=renderer,
        workers=workers,
        limits=make_limits(config),
        speakers=main.speakers if alike else Own(main.engine, renderer, workers.players),
        runner=main.runner if same else None,
        kind=of_set("held_out", name),
        progress=main.progress,
    )


def close_sets(sets: list[EvaluationSet], main: Actor) -> None:
    """End the workers of the sets that have their own."""
    for each in sets:
        if each.actor.workers is not main.workers:
            each.actor.workers.close()
