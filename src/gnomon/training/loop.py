"""The page: what Gnomon does, in order. Everything else is one of the objects handed in.

Laws of this page: the only `if`s are cadence; a feature enters as an object or not at all; every random
draw names itself; rollouts are recorded before anything is dropped; no device, rank or process is named.
"""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.config import RunConfig
from gnomon.envs.base import Env
from gnomon.keys import Key
from gnomon.learners.base import Learner
from gnomon.objectives import Objective
from gnomon.rollout.actor import Actor
from gnomon.rollout.credit import Crediting
from gnomon.rollout.failures import judged
from gnomon.rollout.packing import pack
from gnomon.training.evaluate import evaluate
from gnomon.training.record import Recorder
from gnomon.training.schedule import Schedule
from gnomon.types import Task

__all__ = ["draw", "due", "first", "train"]


async def train(
    config: RunConfig,
    *,
    env: Env,
    actor: Actor,
    learner: Learner,
    objective: Objective,
    credit: Crediting,
    schedule: Schedule,
    run: Recorder,
) -> None:
    """Maximise the objective from where the run stands to the end of its budget.

    Every `eval.every` steps, and before the first one (the locked baseline), the policy is measured on
    held-out tasks by the same harness. A run that is told to stop ends between two steps, saved.
    """
    key, kept = Key(config.seed), (learner, actor, credit)
    tasks, held_out = env.tasks("train"), first(env.tasks("test"), config.eval.tasks)
    for step in run.steps(kept):
        with run.step(step) as log:
            weights = learner.publish()
            await actor.sync(weights, step)
            if due(config.eval.every, step):
                log.evaluation(await evaluate(actor, held_out, key.at("eval"), config.eval))
            chosen = draw(tasks, config.rollout.prompts, key.at("tasks", step=step), config.rollout.tasks)
            groups = await actor.collect(chosen, key.at("rollouts", step=step))
            log.rollouts(groups)
            batch = pack(judged(groups), sampling=actor.sampling, exact=actor.exact, limit=actor.longest)
            batch = credit(batch, learner, updates=config.optim.updates)
            log.credit(batch)
            parts = batch.updates(config.optim.epochs, config.optim.minibatches, key.at("updates", step=step))
            for update, part in enumerate(parts, weights.version + 1):
                log.stats(learner.forward_backward(part, objective))
                log.stats(learner.optim_step(schedule(update)))
        if due(config.save.every, step + 1):
            run.save(kept, step + 1)
    if run.complete:
        await actor.sync(learner.publish(), config.budget.steps)
        with run.finish(kept) as log:
            log.evaluation(await evaluate(actor, held_out, key.at("eval"), config.eval))


def due(every: int, step: int) -> bool:
    return step % every == 0


def first(tasks: Sequence[Task], count: int) -> list[tuple[int, Task]]:
    """The first tasks of a split, each with its index."""
    return [(index, tasks[index]) for index in range(min(count, len(tasks)))]


def draw(tasks: Sequence[Task], count: int, key: Key, among: Sequence[int] = ()) -> list[tuple[int, Task]]:
    """Different tasks of a split, drawn evenly from all or from those given, each with its index."""
    indices = among or range(len(tasks))
    return [(index, tasks[index]) for index in key.random().sample(indices, min(count, len(indices)))]
