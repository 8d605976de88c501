"""Which tasks a step plays: the curriculum, and the tasks that continue a prefix of a failed reply."""

from __future__ import annotations

from gnomon.config import RunConfig
from gnomon.envs import offers
from gnomon.envs.base import Env
from gnomon.errors import ConfigError
from gnomon.keys import Key
from gnomon.models.tokenizer import Tokenizer
from gnomon.rollout.continuing import FailurePrefixes
from gnomon.rollout.order import Band, Chosen, Curriculum, Drawn, EasiestFirst, TaskOrder
from gnomon.run.order import reorder
from gnomon.run.recorded_runs import groups_of

__all__ = ["make_order"]


def make_order(
    config: RunConfig, env: Env, tokenizer: Tokenizer, curriculum: Curriculum | None = None
) -> TaskOrder | FailurePrefixes:
    """Args: curriculum: one that was passed as an object; else the one that the settings name.

    Raises: ConfigError E168 for an environment that does not say which tasks are easy.
    """
    rollout, tasks = config.rollout, env.tasks("train")
    order: TaskOrder
    if chooser := curriculum or make_curriculum(config, env):
        order = Chosen(
            chooser,
            tasks,
            offered=rollout.tasks or range(len(tasks)),
            count=rollout.prompts,
            steps=config.budget.steps,
            lag=config.ahead,
            key=Key(config.seed),
        )
    else:
        places = reorder(rollout.order_seed, config.budget.steps)
        order = Drawn(tasks=tasks, count=rollout.prompts, key=Key(config.seed), among=rollout.tasks, places=places)
    if not rollout.failure_prefix:
        return order
    return FailurePrefixes(
        order,
        tasks,
        tokenizer,
        count=round(rollout.failure_prefix * rollout.prompts),
        stop=rollout.stop,
        lag=config.ahead,
        recorded=groups_of(config, env) if rollout.recorded else None,
        among=rollout.tasks,
    )


def make_curriculum(config: RunConfig, env: Env) -> Curriculum | None:
    """The curriculum of the settings; None where tasks are drawn uniformly. Raises: ConfigError E168."""
    match config.rollout.curriculum:
        case "band":
            low, high = config.rollout.band
            return Band(low=low, high=high)
        case "easiest":
            difficulty = offers.difficulty(env)
            if difficulty is None:
                raise ConfigError(
                    "E168",
                    f"{type(env).__name__} does not say which tasks are easy",
                    where="rollout.curriculum",
                    fix="define difficulty(self, task) in the environment, or rollout.curriculum=band",
                )
            tasks = env.tasks("train")
            return EasiestFirst(difficulty=lambda index: difficulty(tasks[index]))
    return None
