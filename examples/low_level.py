"""The same run by hand: sample, forward_backward, optim_step, save_state. Try it: python examples/low_level.py

`gnomon train countdown run=FOLDER steps=3 eval.tasks=16` and this script end with the same fingerprint.
"""

import asyncio
import sys
from pathlib import Path

import gnomon
from gnomon.api import configure
from gnomon.config import to_toml
from gnomon.keys import Key
from gnomon.launch.display import Display
from gnomon.launch.local import build
from gnomon.launch.manifest import manifest, opening
from gnomon.store import Run
from gnomon.training import Recorder, evaluate
from gnomon.training.loop import draw, due, first


async def main(folder: str, steps: int) -> str:
    config, _ = configure("countdown", {"steps": steps, "eval": {"tasks": 16}})
    parts = build(config)
    env, actor, learner = parts.env, parts.actor, parts.learner
    key, held_out = Key(config.seed), first(env.tasks("test"), config.eval.tasks)
    facts = manifest(config, env, tier=actor.engine.tier.value, mismatch=parts.mismatch)
    genesis = opening(config, env)
    with Run.create(Path(folder), recipe=to_toml(config), manifest=facts, genesis=genesis) as store:
        run = Recorder(store, config, Display(config))
        kept = (learner, actor, parts.credit)
        for step in run.steps(kept):
            with run.step(step) as log:
                weights = learner.publish()
                await actor.sync(weights, step)
                if due(config.eval.every, step):
                    log.evaluation(await evaluate(actor, held_out, key.at("eval"), config.eval))
                chosen = draw(env.tasks("train"), config.rollout.prompts, key.at("tasks", step=step))
                groups = await actor.collect(chosen, key.at("rollouts", step=step))  # sample, and judge
                batch = gnomon.pack(groups, sampling=actor.sampling, exact=actor.exact, limit=actor.longest)
                batch = parts.credit(batch, learner)  # an advantage on every token
                log.rollouts(groups)
                log.advantages(batch.advantages)
                log.stats(learner.forward_backward(batch, parts.objective))
                log.stats(learner.optim_step(parts.schedule(weights.version + 1)))
        await actor.sync(learner.publish(), steps)
        with run.finish(kept) as log:  # and save_state
            log.evaluation(await evaluate(actor, held_out, key.at("eval"), config.eval))
        return store.fingerprint


if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else "runs/by-hand"
    print("fingerprint", asyncio.run(main(folder, int(sys.argv[2]) if len(sys.argv) > 2 else 3)))
