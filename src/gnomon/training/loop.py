"""The training loop. All features are objects that are passed in.

Rules of this module: the only conditions are cadences; a feature is an object; every random draw has a named key;
rollouts are recorded before any are dropped; the code names no device, rank or process.
"""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.config import RunConfig
from gnomon.envs.base import Env
from gnomon.keys import Key
from gnomon.learners.base import Learner
from gnomon.learners.credit import Crediting
from gnomon.objectives import Objective
from gnomon.rollout.actor import Actor
from gnomon.rollout.batches import Batches
from gnomon.rollout.failures import judged_groups
from gnomon.rollout.order import TaskOrder, draw
from gnomon.rollout.packing import pack
from gnomon.training.evaluate import EvaluationSet, evaluate, first
from gnomon.training.record import Recorder
from gnomon.training.schedule import Schedule

__all__ = ["draw", "due", "first", "train"]


async def train(
    config: RunConfig,
    *,
    env: Env,
    actor: Actor,
    batches: Batches,
    order: TaskOrder,
    learner: Learner,
    objective: Objective,
    credit: Crediting,
    schedule: Schedule,
    run: Recorder,
    sets: Sequence[EvaluationSet] = (),
) -> None:
    """Maximise the objective from the run's current step to the end of its budget.

    Every `eval.every` steps, and before the first one (the baseline), the policy is evaluated on held-out tasks. A run
    that is asked to stop ends between two steps, with a checkpoint.

    Args: sets: more held-out tasks, each with a cadence of its own.
    """
    key, kept = Key(config.seed), (learner, actor, batches, credit, order)
    held_out = first(env.tasks("test"), config.eval.tasks)
    for step in run.steps(kept):
        with run.step(step) as log:
            weights = learner.publish()
            await actor.sync(weights, step)
            if due(config.eval.every, step):
                log.evaluation(await evaluate(actor, held_out, key.at("eval"), config.eval))
            for each in sets:
                if due(each.config.every, step):
                    log.evaluation(await each.evaluate(key, actor))
            groups = await batches.take(step, weights, order.of)
            log.rollouts(groups)
            order.see(step, groups)
            log.stats(batches.counts())
            batch = pack(judged_groups(groups), sampling=actor.sampling, exact=batches.exact, limit=actor.longest)
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
            for each in sets:
                log.evaluation(await each.evaluate(key, actor))


def due(every: int, step: int) -> bool:
    return step % every == 0
