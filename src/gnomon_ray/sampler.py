"""A sampler: a process of a cluster that plays whole episodes, with an engine and workers for the environment."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Sequence
from typing import Any

import torch

from gnomon.config import RunConfig
from gnomon.engines.base import Versioned
from gnomon.engines.remote import Loaded
from gnomon.engines.threaded import Changeable
from gnomon.models.folder import model_folder
from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering import choose
from gnomon.rollout.remote_runner import Deadline, name_of, run_sent
from gnomon.rollout.runner import LocalRunner
from gnomon.run.makers.actor import make_limits, make_opponent, make_past
from gnomon.run.makers.engine import make_engine
from gnomon.run.makers.workers import make_workers
from gnomon.types import Completion, Request
from gnomon_ray.answering import answering

__all__ = ["Sampler"]


class Sampler:
    """Answers the calls of a run. Ray runs its methods in one event loop, so episodes are played together.

    Args: parts: a pickled `Carried` with the settings, the environment, and the environment whose tasks are trained on.
    """

    def __init__(self, parts: bytes) -> None:
        self._parts = parts
        self._runners: dict[int, LocalRunner] = {}
        self._loads: dict[int, int] = {}
        """The last load of every engine."""
        self._loading = asyncio.Lock()

    @answering
    async def start(self) -> None:
        """Make what does not depend on weights."""
        self.config: RunConfig
        self.config, env, self._env = pickle.loads(self._parts).load()
        torch.set_num_threads(1)  # Of this thread, which runs the event loop.
        self._tokenizer = Tokenizer(model_folder(self.config.policy.path))
        self._renderer = choose(self._tokenizer, self.config.policy.renderer, turns=env.max_turns)
        self._workers = make_workers(self.config, env)
        self._shared = {"renderer": self._renderer, "tokenizer": self._tokenizer}
        self._runner(0)

    async def alive(self) -> None:
        """Answers as soon as the event loop does."""

    async def close(self) -> None:
        """End the engines with their processes and files."""
        for runner in self._runners.values():
            engine: Any = runner.engine
            await asyncio.to_thread(engine.close)

    @answering
    async def load(self, loaded: Loaded) -> None:
        """Take over weights between two tokens of what is being sampled."""
        await self._holding(loaded)

    @answering
    async def play(self, loaded: Loaded, episode: bytes, others: Sequence[Loaded], deadline: Deadline) -> bytes:
        """The turns and the end of an episode, as `run_sent` writes them. Args: others: weights of opponents."""
        engines = {name_of(other.engine): (await self._holding(other)).engine for other in others}
        return await run_sent(await self._holding(loaded), episode, self._shared | engines, deadline)

    @answering
    async def sample(self, loaded: Loaded, request: Request) -> Completion:
        return await (await self._holding(loaded)).engine.sample(request)

    @answering
    async def measure(self, loaded: Loaded, prompts: Sequence[tuple[int, ...]]) -> float:
        """`Embedded.measure` with these weights."""
        engine: Any = (await self._holding(loaded)).engine
        found: float = engine.measure(prompts)
        return found

    @answering
    async def versions(self, loaded: Loaded) -> dict[str, str]:
        """Of an engine with an environment of its own; otherwise empty."""
        engine: Any = (await self._holding(loaded)).engine
        return dict(engine.versions) if isinstance(engine, Versioned) else {}

    async def _holding(self, loaded: Loaded) -> LocalRunner:
        """The runner whose engine has these weights, or newer ones if they change in flight."""
        async with self._loading:
            runner = self._runners.get(loaded.engine) or self._runner(loaded.engine)
            engine: Any = runner.engine
            held = self._loads.get(loaded.engine, 0)
            if held < loaded.load or (held > loaded.load and not self.config.rollout.in_flight):
                (handle,) = loaded.handle
                weights = await handle
                engine.tier = loaded.tier
                if isinstance(engine, Versioned):
                    await asyncio.to_thread(runner.engine.load, weights)  # It waits for its own process.
                else:
                    engine.load(weights)
                self._loads[loaded.engine] = loaded.load
            return runner

    def _runner(self, number: int) -> LocalRunner:
        """A new runner with an engine of its own. Args: number: as in `Loaded`."""
        engine = make_engine(self.config) if number >= 0 else make_opponent(self.config, make_past(self.config))
        if isinstance(engine, Changeable):
            engine.in_flight = self.config.rollout.in_flight
        runner = self._runners[number] = LocalRunner(
            self._env,
            self._tokenizer,
            engine,
            renderer=self._renderer,
            workers=self._workers,
            limits=make_limits(self.config),
        )
        return runner
