"""How much of the time the engine has work, where tools answer after random times: lockstep, coroutines, sampled ahead.

    python benchmarks/episodes.py

Every episode has several turns, and after each of them but the last its environment sleeps for a log-normal time, as a
tool would that runs elsewhere. In lockstep nobody replies before every episode of the step has its observation, and no
tool is called before the slowest reply is done. As coroutines no episode waits for another. Sampled ahead, the episodes
of the next step begin together with those of this one. All play the same episodes to the same bytes, with the same
waiting times. `busy` is the fraction of the wall-clock time in which at least one request waits for the engine or is
decoded. Training takes no time here.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gnomon.engines.base import Tier
from gnomon.engines.embedded import Embedded
from gnomon.envs import Step
from gnomon.envs.base import identity, user
from gnomon.envs.workers import EnvWorkers, Remote
from gnomon.keys import Key
from gnomon.models.policy import Policy
from gnomon.models.weights import WeightsRef
from gnomon.rollout import Actor
from gnomon.types import Completion, Group, Part, Request, Sampling, Status, Task, Verdict


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Episodes of a number of turns, with calls between them. The time of a call is log-normal."""

    turns: int
    median: float
    spread: float
    """Its σ."""

    @property
    def reward_range(self) -> tuple[float, float]:
        return 0.0, 1.0

    @property
    def max_turns(self) -> int:
        return self.turns

    def tasks(self, split: str) -> Sequence[Task]:
        return [Task(id=identity(split, i), messages=user(f"Count from {i}."), answer=i) for i in range(1024)]

    def start(self, task: Task, key: Key) -> WaitingEpisode:
        return WaitingEpisode(self, task, key)


class WaitingEpisode:
    def __init__(self, env: Waiting, task: Task, key: Key) -> None:
        self.env, self.messages, self.rng, self.turn = env, task.messages, key.random(), 0

    def step(self, reply: str) -> Step:
        self.turn += 1
        if self.turn == self.env.turns:
            return Step(done=True, verdict=Verdict(status=Status.CORRECT, parts=(Part(name="end", value=1.0),)))
        time.sleep(self.env.median * self.rng.lognormvariate(0.0, self.env.spread))
        return Step(messages=user("Go on."), done=False)

    def close(self) -> None:
        """Nothing is held."""


class Watched:
    """An engine, and how long it had work."""

    tier = Tier.EXACT

    def __init__(self, engine: Embedded) -> None:
        self.engine, self.version = engine, 0
        self.open, self.since, self.busy, self.tokens = 0, 0.0, 0.0, 0

    async def sample(self, request: Request) -> Completion:
        if not self.open:
            self.since = time.perf_counter()
        self.open += 1
        try:
            completion = await self.engine.sample(request)
        finally:
            self.open -= 1
            if not self.open:
                self.busy += time.perf_counter() - self.since
        self.tokens += len(completion.token_ids)
        return completion

    def load(self, weights: WeightsRef) -> None:
        self.engine.load(weights)

    def close(self) -> None:
        self.engine.close()


class Lockstep(Watched):
    """The same engine, which answers when every episode that goes on has asked, and all of them at once."""

    live = 0
    """Episodes that go on."""

    def __init__(self, engine: Embedded) -> None:
        super().__init__(engine)
        self.waiting: list[tuple[Request, asyncio.Future[Completion]]] = []

    async def sample(self, request: Request) -> Completion:
        answer: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self.waiting.append((request, answer))
        self.turn()
        return await answer

    def turn(self) -> None:
        if self.waiting and len(self.waiting) == self.live:
            asked, self.waiting = self.waiting, []
            self.task = asyncio.ensure_future(self.answer(asked))

    async def answer(self, asked: Sequence[tuple[Request, asyncio.Future[Completion]]]) -> None:
        found = await asyncio.gather(*(super(Lockstep, self).sample(request) for request, _ in asked))
        for (_, answer), completion in zip(asked, found, strict=True):
            answer.set_result(completion)


class Counted(EnvWorkers):
    """Environment workers that tell a lockstep engine of every episode that is over."""

    engine: Watched

    async def step(self, episode: Remote, reply: str) -> Step:
        step = await super().step(episode, reply)
        if step.done and isinstance(self.engine, Lockstep):
            self.engine.live -= 1
            self.engine.turn()
        return step


async def sampled(options: argparse.Namespace, actors: Sequence[Actor], lag: int, first: int) -> list[object]:
    """What is played in the steps from `first` on. Each is begun `lag` steps before it is needed."""
    env, engine = actors[0].env, actors[0].engine
    tasks = list(enumerate(env.tasks("train")[: options.episodes // options.group]))
    found: list[object] = []
    begun: list[asyncio.Task[list[Group]]] = []
    for step in range(options.steps):
        if isinstance(engine, Lockstep):
            engine.live = options.episodes
        for k in range(len(begun), min(step + lag + 1, options.steps)):
            begun.append(asyncio.ensure_future(actors[k % len(actors)].collect(tasks, Key(first + k))))
        groups = await begun[step]
        found.append([[rollout.turns for rollout in group.rollouts] for group in groups])
    return found


def play(options: argparse.Namespace, policy: Policy, kind: type[Watched], lag: int) -> tuple[float, Watched, object]:
    """Seconds of all steps, the engine, and what was sampled."""
    env = Waiting(turns=options.turns, median=options.median, spread=options.spread)
    engine = kind(Embedded(policy))
    workers = Counted(env, workers=options.workers, episodes=(lag + 1) * options.episodes)
    workers.engine = engine
    sampling = Sampling(max_tokens=options.tokens)
    actors = [
        Actor(env, policy.tokenizer, engine, group=options.group, sampling=sampling, workers=workers)
        for _ in range(lag + 1)
    ]
    try:
        quick = argparse.Namespace(**{**vars(options), "steps": 1})
        asyncio.run(sampled(quick, actors, 0, options.steps))  # The workers are started.
        engine.busy, engine.tokens = 0.0, 0
        began = time.perf_counter()
        found = asyncio.run(sampled(options, actors, lag, 0))
        seconds = time.perf_counter() - began
    finally:
        workers.close()
    return seconds, engine, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=24, help="tokens of every reply")
    parser.add_argument("--median", type=float, default=0.3, help="median seconds of a call")
    parser.add_argument("--spread", type=float, default=1.0, help="σ of the log-normal distribution of these seconds")
    parser.add_argument("--workers", type=int, default=128)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    policy = Policy.load("tiny")
    policy.tokenizer.eos = frozenset()
    print(f"{platform.platform()}, {os.cpu_count()} cores, 1 thread, load {os.getloadavg()[0]:.1f}")
    print(
        f"{options.steps} steps of {options.episodes} episodes, {options.turns} turns of {options.tokens} tokens, "
        f"{options.turns - 1} calls of {options.median:g} s at the median (σ {options.spread:g}), "
        f"{options.workers} processes"
    )
    arms: list[tuple[str, type[Watched], int]] = [
        ("lockstep", Lockstep, 0),
        ("coroutines", Watched, 0),
        ("sampled ahead", Watched, 1),
    ]
    for _ in range(options.rounds):
        played = []
        for name, kind, lag in arms:
            seconds, engine, found = play(options, policy, kind, lag)
            played.append(found)
            print(
                f"{name:<13} {seconds / options.steps:6.2f} s a step   busy {engine.busy / seconds:4.0%}   "
                f"{engine.tokens / seconds:6.0f} tokens/s",
                flush=True,
            )
        if any(found != played[0] for found in played):
            raise SystemExit("they sampled different episodes")


if __name__ == "__main__":
    main()
