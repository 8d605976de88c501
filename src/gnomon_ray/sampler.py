"""A sampler: a process of a cluster that plays whole episodes, with an engine and workers for the environment."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Sequence
from typing import Any

import torch

from gnomon.config import RunConfig
from gnomon.engines.base import Versioned
from gnomon.engines.embedded import Embedded
from gnomon.engines.remote import Loaded
from gnomon.engines.vllm import VLLM
from gnomon.models.folder import model_folder
from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering import choose
from gnomon.rollout.actor import Actor
from gnomon.rollout.elsewhere import Deadline, name_of, played
from gnomon.run.makers.actor import make_limits, make_opponent, make_past, make_sampling
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
        self._actors: dict[int, Actor] = {}
        self._loads: dict[int, int] = {}
        """The last load of every engine."""
        self._loading = asyncio.Lock()

    @answering
    async def start(self) -> None:
        """Make what does not depend on weights."""
        self.config: RunConfig
        self.config, env, self._env = pickle.loads(self._parts).opened()
        torch.set_num_threads(self.config.threads)  # Of this thread, which runs the event loop.
        self._tokenizer = Tokenizer(model_folder(self.config.policy.path))
        self._renderer = choose(self._tokenizer, self.config.policy.renderer, turns=env.max_turns)
        self._workers = make_workers(self.config, env)
        self._shared = {"renderer": self._renderer, "tokenizer": self._tokenizer}
        self._actor(0)

    async def alive(self) -> None:
        """Answers as soon as the event loop does."""

    async def close(self) -> None:
        """End the engines with their processes and files."""
        for actor in self._actors.values():
            await asyncio.to_thread(actor.engine.close)

    @answering
    async def load(self, loaded: Loaded) -> None:
        """Take over weights between two tokens of what is being sampled."""
        await self._holding(loaded)

    @answering
    async def play(self, loaded: Loaded, episode: bytes, others: Sequence[Loaded], deadline: Deadline) -> bytes:
        """The turns and the end of an episode, as `played` writes them. Args: others: weights of opponents."""
        engines = {name_of(other.engine): (await self._holding(other)).engine for other in others}
        return await played(await self._holding(loaded), episode, self._shared | engines, deadline)

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

    async def _holding(self, loaded: Loaded) -> Actor:
        """The actor whose engine has these weights, or newer ones if they change in flight."""
        async with self._loading:
            actor: Any = self._actors.get(loaded.engine) or self._actor(loaded.engine)
            held = self._loads.get(loaded.engine, 0)
            if held < loaded.load or (held > loaded.load and not self.config.rollout.in_flight):
                (handle,) = loaded.handle
                weights = await handle
                actor.engine.tier = loaded.tier
                if isinstance(actor.engine, VLLM):
                    await asyncio.to_thread(actor.engine.load, weights)  # It waits for its worker.
                else:
                    actor.engine.load(weights)
                self._loads[loaded.engine] = loaded.load
            found: Actor = actor
            return found

    def _actor(self, number: int) -> Actor:
        """A new actor with an engine of its own. Args: number: as in `Loaded`."""
        engine = make_engine(self.config) if number >= 0 else make_opponent(self.config, make_past(self.config))
        if isinstance(engine, Embedded | VLLM):
            engine.in_flight = self.config.rollout.in_flight
        found = self._actors[number] = Actor(
            self._env,
            self._tokenizer,
            engine,
            group=self.config.rollout.group,
            sampling=make_sampling(self.config),
            renderer=self._renderer,
            workers=self._workers,
            limits=make_limits(self.config),
        )
        return found
