"""The samplers of a run in a Ray cluster: placed, watched, replaced and ended together.

Every sampler has a placement group of its own, so what it needs stays reserved while it is replaced, and a run goes on
with the samplers for which the cluster has room. Ray restarts nothing: an actor lives once, and `Dispatch` counts.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

import ray

from gnomon.config.sections import Launch
from gnomon.engines.remote import Loaded
from gnomon.models.weights import WeightsRef
from gnomon.run.losses import SamplerLoss
from gnomon_ray.actors import Actors
from gnomon_ray.deaths import PING
from gnomon_ray.dispatch import TICK, Call, Dispatch

__all__ = ["Samplers"]

END = 10.0
"""Seconds for the samplers to end their engines."""


class Samplers:
    """Args: parts: as in `Sampler`; launch: the settings.

    Raises: ResourceError E511 where the cluster has no room for a sampler, E512 where none stays alive; what a sampler
        raises as it starts.
    """

    def __init__(self, parts: bytes, launch: Launch) -> None:
        self._events: SimpleQueue[Callable[[], None]] = SimpleQueue()
        """What the watch has to do. Only its thread changes samplers and calls Ray."""
        self._ended, self._begun = threading.Event(), threading.Event()
        """The second is set when the first sampler is ready, or none will be."""
        self._actors = Actors(parts, launch, self._events.put)
        self._dispatch = self._actors.dispatch = Dispatch(self._actors, launch, time.monotonic)
        self._watch = threading.Thread(target=self._watching, name="gnomon-samplers", daemon=True)
        self._watch.start()
        try:
            self._begun.wait()
            if self._dispatch.error:
                raise self._dispatch.error
        except BaseException:
            self.close()
            raise

    def put(self, weights: WeightsRef) -> list[Any]:
        """The weights in the object store. In a list, or Ray would read them again for every call."""
        return [ray.put(weights.copy())]

    async def call(self, verb: str, *arguments: Any) -> Any:
        """What a sampler answers. A call whose sampler dies is sent to another.

        Raises: what the sampler raised; ResourceError E511, E512.
        """
        call = Call(verb, arguments)
        self._events.put(partial(self._dispatch.waiting.append, call))
        return await asyncio.wrap_future(call.answer)

    def renew(self, loaded: Loaded) -> None:
        """Have every sampler take over these weights while it samples, and every later one when it starts.

        If a sampler does not hold them then, the next call raises why.
        """
        self._events.put(partial(self._dispatch.renew, loaded))

    def losses(self) -> list[SamplerLoss]:
        """Those since the last call."""
        losses = self._dispatch.losses
        return [losses.popleft() for _ in range(len(losses))]

    def close(self) -> None:
        """End the samplers, and free what is reserved for them. Ray does not wait until the processes are gone."""
        self._events.put(self._ended.set)
        self._watch.join()
        self._actors.close(self._dispatch.lives, END)

    def _watching(self) -> None:
        """Start, watch and replace processes, and send calls, until the run ends."""
        dispatch, checked = self._dispatch, time.monotonic()
        while not self._ended.is_set():
            try:
                with suppress(Empty):
                    self._events.get(timeout=TICK)()
                    while True:
                        self._events.get_nowait()()
                if dispatch.error is None:
                    if (gap := time.monotonic() - checked) > PING:
                        dispatch.forgive(gap)
                    dispatch.tick()
                    checked = time.monotonic()
                dispatch.serve()
            except Exception as error:  # Whoever waits for a sampler has to know.
                dispatch.fail(error)
            if dispatch.begun or dispatch.error:
                self._begun.set()
