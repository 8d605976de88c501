"""A run in virtual time: how long its steps take, how busy its engines are, and how old its tokens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from gnomon.config import RunConfig
from gnomon.keys import Key
from gnomon.models.weights import WeightsRef
from gnomon.stats import Stats, merge
from gnomon.training.evaluate import first
from gnomon.training.loop import draw, due
from gnomon.types import Group, Task
from gnomon_lab.simulation.clock import VirtualLoop
from gnomon_lab.simulation.environment import Waiting
from gnomon_lab.simulation.head import Head
from gnomon_lab.simulation.load import CallSeconds, Load
from gnomon_lab.simulation.outcome import Outcome
from gnomon_lab.simulation.parts import Parts

__all__ = ["simulate"]


def simulate(config: RunConfig, load: Load, call: CallSeconds | None = None, env: Waiting | None = None) -> Outcome:
    """Play a run with the scheduler of a real one: `Actor`, and `InTurn`, `Ahead` or `InFlight`; with `launch=ray` also
    `Dispatch` and `Sampler`.

    Args:
        config: its schedule, batch, evaluations, limits and samplers count; policy, objective and environment do not.
        call: seconds of the environment's calls, in the place of those that `load` describes.
        env: tasks, in the place of ones without content.
    Raises: ResourceError E512 where samplers fail so often that a run would stop.
    """
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(run(config, load, call or load.calls, env or Waiting(max_turns=load.turns)))
    finally:
        loop.end()


async def run(config: RunConfig, load: Load, call: CallSeconds, env: Waiting) -> Outcome:
    loop, key, began = asyncio.get_running_loop(), Key(config.seed), time.thread_time()
    head = Head(loop.time)
    with head.aside:
        parts = Parts(config, load, call, env, key, head)
    tasks, held_out = env.tasks("train"), first(env.tasks("test"), config.eval.tasks)
    stats: Stats = {}
    trained, rollouts, tokens = 0.0, 0, 0

    def order(step: int) -> tuple[list[tuple[int, Task]], Key]:
        return draw(tasks, config.rollout.prompts, key.at("tasks", step=step)), key.at("rollouts", step=step)

    for step in range(config.budget.steps + 1):
        weights = WeightsRef(base="", version=step * config.optim.updates, tensors={}, probe=(0,), probe_logp=())
        await parts.actor.sync(weights, step)
        if due(config.eval.every, step) or step == config.budget.steps:
            await parts.actor.rollouts(held_out, key.at("eval"), config.eval.samples)
        if step == config.budget.steps:
            break
        groups = await parts.batches.take(step, weights, order)
        stats = merge(stats, parts.batches.counts())
        sampled = sum(rollout.tokens for group in groups for rollout in group.rollouts)
        seconds = load.train + load.train_token * sampled
        await asyncio.sleep(seconds)
        trained, tokens, rollouts = trained + seconds, tokens + sampled, rollouts + count(groups)
    now, servers, cpu = loop.time(), parts.servers, time.thread_time() - began - head.aside.seconds
    busy = sum(server.busy for server in servers)
    return Outcome(
        seconds=now,
        steps=config.budget.steps,
        rollouts=rollouts,
        tokens=tokens,
        engines_busy=busy / (len(servers) * now),
        rows=sum(server.row_seconds for server in servers) / max(busy, 1e-9),
        waiting=sum(server.waiting_seconds for server in servers) / now,
        workers_busy=sum(calls.busy for calls in parts.workers) / (len(parts.workers) * config.workers.count * now),
        learner_busy=trained / now,
        staleness=stats["staleness"].value if "staleness" in stats else 0.0,
        staleness_max=stats["staleness_max"].value if "staleness_max" in stats else 0.0,
        resampled=head.failed,
        lost_tokens=sum(server.lost for server in servers),
        sent=head.sent,
        answers=head.answers,
        weights=head.weights,
        watch=head.watch,
        messages=head.messages,
        queue_median=head.queue.median,
        queue_max=head.queue.most,
        scheduler=cpu / max(1, rollouts),
        head=cpu / max(now, 1e-9),
    )


def count(groups: Sequence[Group]) -> int:
    return sum(len(group.rollouts) for group in groups)
