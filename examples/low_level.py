"""The same run by hand: sample, forward_backward, optim_step, save_state. Try it: python examples/low_level.py

`gnomon train countdown run=FOLDER steps=3 eval.tasks=16` and this script end with the same fingerprint.
"""

import asyncio
import sys

from gnomon import loop


async def main(folder: str, steps: int) -> str:
    config, _ = loop.configure("countdown", {"steps": steps, "eval": {"tasks": 16}})
    parts = loop.build(config)
    env, actor, learner, objective = parts.env, parts.actor, parts.learner, parts.objective
    key, held_out = loop.Key(config.seed), loop.first(env.tasks("test"), config.eval.tasks)
    with loop.create(folder, config, parts) as store:
        run = loop.Recorder(store, config, report=print)
        kept = (learner, actor, parts.credit)
        for step in run.steps(kept):
            with run.step(step) as log:
                weights = learner.publish()
                await actor.sync(weights, step)
                if loop.due(config.eval.every, step):
                    log.evaluation(await loop.evaluate(actor, held_out, key.at("eval"), config.eval))
                chosen = loop.draw(env.tasks("train"), config.rollout.prompts, key.at("tasks", step=step))
                groups = await actor.collect(chosen, key.at("rollouts", step=step))  # sample, and judge
                batch = loop.pack(groups, sampling=actor.sampling, exact=actor.exact, limit=actor.longest)
                batch = parts.credit(batch, learner)  # an advantage on every token
                log.rollouts(groups)
                log.credit(batch)
                log.stats(learner.forward_backward(batch, objective))
                log.stats(learner.optim_step(parts.schedule(weights.version + 1)))
        await actor.sync(learner.publish(), steps)
        with run.finish(kept) as log:  # and save_state
            log.evaluation(await loop.evaluate(actor, held_out, key.at("eval"), config.eval))
        return store.fingerprint


if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else "runs/by-hand"
    print("fingerprint", asyncio.run(main(folder, int(sys.argv[2]) if len(sys.argv) > 2 else 3)))
