"""Evaluates a policy without training it."""

from __future__ import annotations

from gnomon.config import RunConfig
from gnomon.envs.base import Env
from gnomon.keys import Key
from gnomon.rollout.actor import Progress, unseen
from gnomon.run.display import Phase, no_phase
from gnomon.run.loops import finished
from gnomon.run.parts import built, here
from gnomon.training import Evaluation, evaluate, first

__all__ = ["measure"]


def measure(
    config: RunConfig, progress: Progress = unseen, phase: Phase = no_phase, env: Env | None = None
) -> dict[str, Evaluation]:
    """The policy's evaluation on held-out tasks, under an empty name, and those of the evaluation sets.

    Nothing is trained, so the learner is in this process.
    """
    key = Key(config.seed)
    with built(here(config), env, progress, phase=phase) as parts:
        parts.engine.load(parts.learner.publish())
        held_out = first(parts.env.tasks("test"), config.eval.tasks)
        main = finished(evaluate(parts.actor, held_out, key.at("eval"), config.eval))
        return {"": main, **{each.name: finished(each.evaluate(key, parts.actor)) for each in parts.sets}}
