"""A run in virtual time: how long its steps take, how busy its engines are, and how old its tokens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from math import log

from gnomon.config import RunConfig
from gnomon.engines.threaded import Threaded
from gnomon.keys import Key
from gnomon.launch.makers.actor import make_selector
from gnomon.models.folder import model_folder
from gnomon.models.tokenizer import Tokenizer
from gnomon.models.weights import WeightsRef
from gnomon.rollout.actor import Actor, Limits
from gnomon.rollout.batches import Ahead, Batches, InTurn
from gnomon.rollout.in_flight import InFlight
from gnomon.simulation.clock import SameThread, VirtualLoop
from gnomon.simulation.cluster import Cluster, Engine, Speed
from gnomon.simulation.environment import Calls, Waiting
from gnomon.stats import merge
from gnomon.training.evaluate import first
from gnomon.training.loop import draw, due
from gnomon.types import Group, Request, Sampling, Task

__all__ = ["Load", "Outcome", "simulate"]

CallSeconds = Callable[[Task, Key, int], float]
"""Seconds of the environment's call after reply t of an episode with this task and key."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What a run meets: its servers, the lengths of its replies, and the times of its calls and updates."""

    servers: int = 1
    speed: Speed = field(default_factory=Speed)
    reply: float = 200.0
    """Tokens of a reply at the median; `rollout.max_tokens` is the most."""
    reply_spread: float = 0.5
    """σ of the log-normal distribution of lengths."""
    turns: int = 1
    """Replies per episode."""
    call: float = 0.0
    """Seconds of a call of the environment at the median."""
    call_spread: float = 1.0
    """σ of the log-normal distribution of these times."""
    right: float = 0.5
    """Probability that a rollout succeeds."""
    train: float = 1.0
    """Seconds of training per step, beside `train_token`."""
    train_token: float = 0.0
    """Seconds that every sampled token adds to that."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a simulated run came to. Shares and means are over its whole time."""

    seconds: float
    steps: int
    rollouts: int
    tokens: int
    engines_busy: float
    """Share of the time in which a server decoded, mean over servers."""
    rows: float
    """Rows that a server decoded together, mean over the time in which it decoded."""
    waiting: float
    """Requests that waited for a row, mean over time, all servers together."""
    workers_busy: float
    """Share of the time in which a worker of the environment was in a call, mean over workers."""
    learner_busy: float
    """Share of the time in which the learner trained."""
    staleness: float
    """Mean age of a token in optimiser steps."""
    staleness_max: float
    resampled: int
    """Requests that were begun again after a failure of their server."""
    lost_tokens: float
    """Tokens that failures lost."""
    scheduler: float
    """Processor seconds that the scheduler itself used per rollout, on this machine."""
    head: float
    """Share of one core of this machine that the scheduler would keep busy in a run."""

    @property
    def step_seconds(self) -> float:
        """Mean over all steps, evaluations included."""
        return self.seconds / self.steps

    def body(self) -> dict[str, float]:
        """As plain values."""
        return {"step_seconds": self.step_seconds, **asdict(self)}

    def text(self) -> str:
        """For a reader."""
        lines = [
            f"{self.steps} steps in {timedelta(seconds=round(self.seconds))}, {self.step_seconds:.2f} s per step, "
            "evaluations included",
            f"engines      decode in {self.engines_busy:.0%} of the time, {self.rows:.0f} rows together; "
            f"{self.waiting:.0f} requests wait for a row",
            f"environment  its workers are busy in {self.workers_busy:.0%} of the time (workers.count)",
            f"learner      trains in {self.learner_busy:.0%} of the time",
            f"staleness    {self.staleness:.2f} optimiser steps in the mean, {self.staleness_max:.0f} at most",
            f"scheduler    {1e3 * self.scheduler:.2f} ms of this machine's processor per rollout: "
            f"{self.head:.1%} of a core of the head node",
        ]
        if self.resampled:
            share = self.lost_tokens / max(1, self.tokens)
            lines.append(f"failures     {self.resampled} requests sampled again, {share:.1%} of the tokens lost")
        return "\n".join(lines)


def simulate(config: RunConfig, load: Load, call: CallSeconds | None = None, env: Waiting | None = None) -> Outcome:
    """Play a run with the scheduler of a real one: `Actor`, and `InTurn`, `Ahead` or `InFlight`.

    Args:
        config: its schedule, batch, evaluations and limits count; policy, objective and environment do not.
        call: seconds of the environment's calls, in the place of those that `load` describes.
        env: tasks, in the place of ones without content.
    """
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(run(config, load, call or calls(load), env or Waiting(max_turns=load.turns)))
    finally:
        loop.close()


def calls(load: Load) -> CallSeconds:
    """The times that a load describes."""
    if not load.call:
        return lambda task, key, turn: 0.0
    return lambda task, key, turn: key.at("call", turn=turn).random().lognormvariate(log(load.call), load.call_spread)


async def run(config: RunConfig, load: Load, call: CallSeconds, env: Waiting) -> Outcome:
    loop, key, began_cpu = asyncio.get_running_loop(), Key(config.seed), time.process_time()
    cluster = Cluster(load.servers, load.speed, key)
    workers = Calls(env, config.workers.count, call, load.right)
    actor, batches = scheduled(config, env, cluster, workers, load)
    tasks, held_out = env.tasks("train"), first(env.tasks("test"), config.eval.tasks)
    stats, trained, rollouts, tokens = {}, 0.0, 0, 0  # type: ignore[var-annotated]

    def order(step: int) -> tuple[list[tuple[int, Task]], Key]:
        return draw(tasks, config.rollout.prompts, key.at("tasks", step=step)), key.at("rollouts", step=step)

    for step in range(config.budget.steps + 1):
        weights = WeightsRef(base="", version=step * config.optim.updates, tensors={}, probe=(0,), probe_logp=())
        await actor.sync(weights, step)
        if due(config.eval.every, step) or step == config.budget.steps:
            await actor.rollouts(held_out, key.at("eval"), config.eval.samples)
        if step == config.budget.steps:
            break
        groups = await batches.take(step, weights, order)
        stats = merge(stats, batches.counts())
        sampled = sum(rollout.tokens for group in groups for rollout in group.rollouts)
        seconds = load.train + load.train_token * sampled
        await asyncio.sleep(seconds)
        trained, tokens, rollouts = trained + seconds, tokens + sampled, rollouts + count(groups)
    now, members, cpu = loop.time(), cluster.members, time.process_time() - began_cpu
    busy = sum(server.busy for server in members)
    return Outcome(
        seconds=now,
        steps=config.budget.steps,
        rollouts=rollouts,
        tokens=tokens,
        engines_busy=busy / (len(members) * now),
        rows=sum(server.row_seconds for server in members) / max(busy, 1e-9),
        waiting=sum(server.waiting_seconds for server in members) / now,
        workers_busy=workers.busy / (config.workers.count * now),
        learner_busy=trained / now,
        staleness=stats["staleness"].value if "staleness" in stats else 0.0,
        staleness_max=stats["staleness_max"].value if "staleness_max" in stats else 0.0,
        resampled=cluster.resampled,
        lost_tokens=sum(server.lost for server in members),
        scheduler=cpu / max(1, rollouts),
        head=cpu / max(now, 1e-9),
    )


def count(groups: Sequence[Group]) -> int:
    return sum(len(group.rollouts) for group in groups)


def scheduled(config: RunConfig, env: Waiting, cluster: Cluster, workers: Calls, load: Load) -> tuple[Actor, Batches]:
    """The actor that evaluates, and the batches of the run, as `make_batches` makes them."""
    tokenizer, rollout, thread = Tokenizer(model_folder("tiny")), config.rollout, SameThread()
    lag = min(rollout.lag, config.budget.steps)

    def engine() -> Engine:
        return Engine(cluster, lambda request: length(request, load))

    def acting(sampler: Engine | Threaded) -> Actor:
        return Actor(
            env,
            tokenizer,
            sampler,
            group=rollout.group,
            sampling=Sampling(max_tokens=rollout.max_tokens),
            workers=workers,  # type: ignore[arg-type]
            limits=Limits(turns=rollout.turns or None, context=None),
            selector=make_selector(config, env),
        )

    if rollout.in_flight:
        shared = Threaded(engine(), thread)
        actors = [acting(shared) for _ in range(lag + 2)]
        return actors[0], InFlight(shared, actors[1:], config.budget.steps, thread)
    if lag:
        actors = [acting(engine()) for _ in range(lag + 2)]
        return actors[0], Ahead(actors[1:], config.budget.steps, thread)
    actor = acting(engine())
    return actor, InTurn(actor)


def length(request: Request, load: Load) -> int:
    """Tokens of the completion of a request, drawn by its key."""
    drawn = Key(int.from_bytes(request.key, "little") >> 64).random().lognormvariate(log(load.reply), load.reply_spread)
    return max(1, min(request.sampling.max_tokens, round(drawn)))
