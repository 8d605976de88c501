"""The samplers of a run in a Ray cluster: placed, watched, replaced and ended together.

Every sampler has a placement group of its own, so what it needs stays reserved while it is replaced, and a run goes on
with the samplers for which the cluster has room. Ray restarts nothing: an actor lives once, and this module counts.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

import ray

from gnomon.config.sections import Launch
from gnomon.engines.remote import Loaded
from gnomon.errors import GnomonError
from gnomon.launch.cluster.least import LeastBusy
from gnomon.launch.cluster.losses import SamplerLoss
from gnomon.launch.cluster.places import FAILED, GONE, PING, START, Place, dead, pause, reason
from gnomon.launch.cluster.sampler import Sampler
from gnomon.models.weights import WeightsRef

__all__ = ["Samplers"]

TICK = 0.1
"""Seconds between two rounds of the watch."""
END = 10.0
"""Seconds for the samplers to end their engines."""


@dataclass(eq=False, slots=True)
class Call:
    """A call that any sampler may answer."""

    verb: str
    arguments: tuple[Any, ...]
    answer: Future[Any] = field(default_factory=Future)
    deaths: int = 0
    """Of samplers that had it."""


@dataclass(eq=False, slots=True)
class Life:
    """One process of a sampler, from its start to its end."""

    actor: Any
    begun: Any
    """Reference to the result of its start."""
    seen: float
    """Monotonic time of its last sign of life."""
    ping: Any = None
    ready: bool = False
    sent: Loaded | None = None
    """The last weights that it was sent in flight."""
    loading: bool = False
    """Whether it has not taken them over yet."""
    open: dict[int, Call] = field(default_factory=dict)
    """Calls without an answer, by a number, in the order in which they were sent."""


@dataclass(eq=False, slots=True)
class Slot:
    """A sampler, whichever process it is."""

    number: int
    place: Place
    life: Life | None = None
    deaths: int = 0
    """In a row, without an answered call between them."""
    why: str = ""
    """Of the last death."""
    after: float = 0.0
    """Monotonic time of its next start."""


class Samplers:
    """Args: parts: as of `Sampler`; launch: the settings.

    Raises: ResourceError E511 where the cluster has no room for a sampler, E512 where none stays alive; what a sampler
        raises as it starts.
    """

    def __init__(self, parts: bytes, launch: Launch) -> None:
        self.launch, self._parts = launch, ray.put(parts)
        self._events: SimpleQueue[Callable[[], None]] = SimpleQueue()
        """What the watch has to do. Only its thread changes samplers and calls Ray: Ray waits for ever if a callback of
        its own calls it."""
        self._waiting: deque[Call] = deque()
        self._losses: deque[SamplerLoss] = deque()
        self._newest: Loaded | None = None
        """Weights that every sampler takes over while it samples."""
        self._ended, self._numbers = threading.Event(), itertools.count()
        self._error: Exception | None = None
        """What ended the samplers."""
        self._begun = threading.Event()
        """Set when the first sampler is ready, or none will be."""
        self._seen = time.monotonic()
        """When there was a process of a sampler."""
        needs = {"CPU": launch.cpus, "GPU": launch.gpus, **launch.resources}
        self._least: LeastBusy[tuple[Slot, Life]] = LeastBusy()
        """Samplers that are ready."""
        self._slots = [Slot(number, Place("a sampler", needs)) for number in range(launch.samplers)]
        self._watch = threading.Thread(target=self._watching, name="gnomon-samplers", daemon=True)
        self._watch.start()
        try:
            self._begun.wait()
            if self._error:
                raise self._error
        except BaseException:
            self.close()
            raise

    def put(self, weights: WeightsRef) -> list[Any]:
        """The weights in the object store. In a list, or Ray would read them again for every call."""
        return [ray.put(weights.copied())]

    async def call(self, verb: str, *arguments: Any) -> Any:
        """What a sampler answers. A call whose sampler dies is sent to another.

        Raises: what the sampler raised; ResourceError E511, E512.
        """
        call = Call(verb, arguments)
        self._events.put(partial(self._waiting.append, call))
        return await asyncio.wrap_future(call.answer)

    def renew(self, loaded: Loaded) -> None:
        """Have every sampler take over these weights while it samples, and every later one when it starts.

        If a sampler does not hold them then, the next call raises why.
        """

        def renew() -> None:
            self._newest = loaded
            for slot in self._slots:
                if slot.life and slot.life.ready:
                    self._renew(slot, slot.life)

        self._events.put(renew)

    def losses(self) -> list[SamplerLoss]:
        """Those since the last call."""
        return [self._losses.popleft() for _ in range(len(self._losses))]

    def close(self) -> None:
        """End the samplers, and free what is reserved for them. Ray does not wait until the processes are gone."""
        self._events.put(self._ended.set)
        self._watch.join()
        with suppress(Exception):  # The cluster may be gone.
            ready = [slot.life for slot in self._slots if slot.life and slot.life.ready]
            ray.wait([life.actor.close.remote() for life in ready], num_returns=len(ready), timeout=END)
        for slot in self._slots:
            with suppress(Exception):
                if slot.life:
                    ray.kill(slot.life.actor)
            slot.place.remove()

    def _serve(self) -> None:
        """Send calls that wait, in order, each to the least busy sampler."""
        while self._waiting:
            if self._error:
                resolve(self._waiting.popleft(), error=self._error)
                continue
            found = self._least.least()
            if found is None or found[0] >= self.launch.episodes:
                return
            slot, life = found[1]
            call = self._waiting.popleft()
            if not call.answer.cancelled():
                self._send(slot, life, call)

    def _send(self, slot: Slot, life: Life, call: Call) -> None:
        number = next(self._numbers)
        life.open[number] = call
        self._count(slot, life)
        answer = getattr(life.actor, call.verb).remote(*call.arguments)
        answer.future().add_done_callback(
            lambda done: self._events.put(partial(self._answered, slot, life, number, done))
        )

    def _answered(self, slot: Slot, life: Life, number: int, done: Future[Any]) -> None:
        """A call has an answer, or its sampler died."""
        error = done.exception()
        if isinstance(error, GONE):
            self._lose(slot, life, str(error))
        elif call := life.open.pop(number, None):  # Else it was sent to another sampler.
            slot.deaths, life.seen = 0, time.monotonic()
            self._count(slot, life)
            found = None if error else done.result()
            resolve(call, found, found if isinstance(found, GnomonError) else error)

    def _renew(self, slot: Slot, life: Life) -> None:
        """Send a sampler the newest weights, unless it has them or still loads others."""
        if life.loading or life.sent is self._newest:
            return
        life.sent, life.loading = self._newest, True
        answer = life.actor.load.remote(self._newest)
        answer.future().add_done_callback(lambda done: self._events.put(partial(self._renewed, slot, life, done)))

    def _renewed(self, slot: Slot, life: Life, done: Future[Any]) -> None:
        """A sampler has taken over weights, or died. Raises: what it raised."""
        if slot.life is not life:
            return
        error = done.exception()
        if isinstance(error, GONE):
            return self._lose(slot, life, str(error))
        error = error or done.result()
        if error:
            raise error
        life.loading, life.seen = False, time.monotonic()
        self._renew(slot, life)

    def _count(self, slot: Slot, life: Life) -> None:
        """Note how many calls a sampler has, if it is still this process."""
        if slot.life is life:
            self._least.put(slot.number, len(life.open), (slot, life))

    def _lose(self, slot: Slot, life: Life, why: str) -> None:
        """A process is no more. Its calls are sent again before any other."""
        if slot.life is not life:
            return
        slot.life, slot.deaths, slot.why = None, slot.deaths + 1, why
        self._least.remove(slot.number)
        slot.after = time.monotonic() + pause(slot.deaths)
        with suppress(Exception):
            ray.kill(life.actor)
        self._losses.append(SamplerLoss(sampler=slot.number, why=why, episodes=len(life.open)))
        for call in reversed(life.open.values()):
            call.deaths += 1
            if call.deaths > self.launch.restarts:
                resolve(call, error=dead(f"{call.deaths} samplers died with the same call ({call.verb})", why))
            else:
                self._waiting.appendleft(call)
        life.open.clear()

    def _watching(self) -> None:
        """Start, watch and replace processes, and send calls, until the run ends."""
        checked = -math.inf
        while not self._ended.is_set():
            try:
                with suppress(Empty):
                    self._events.get(timeout=TICK)()
                    while True:
                        self._events.get_nowait()()
                if self._error is None and time.monotonic() > checked + TICK:
                    if (gap := time.monotonic() - checked) > PING:
                        self._forgive(gap)
                    for slot in self._slots:
                        self._check(slot)
                    self._require_any()
                    checked = time.monotonic()
                self._serve()
            except Exception as error:  # Whoever waits for a sampler has to know.
                self._error = error
                for life in [slot.life for slot in self._slots if slot.life]:
                    self._waiting.extend(life.open.values())
                    life.open.clear()
                self._begun.set()

    def _forgive(self, gap: float) -> None:
        """This process was stopped or had no processor, so for these seconds it could receive no answer."""
        for life in [slot.life for slot in self._slots if slot.life]:
            life.seen = min(time.monotonic(), life.seen + gap)

    def _check(self, slot: Slot) -> None:
        life = slot.life
        if life is None:
            if not slot.place.placed:
                slot.deaths = 0  # When there is room again, it is on another node.
            elif slot.deaths <= self.launch.restarts and time.monotonic() >= slot.after:
                self._start(slot)
            return
        now = time.monotonic()
        waits = life.ping if life.ready else life.begun
        if waits is None:
            if now - life.seen > PING:
                life.ping = life.actor.alive.remote()
        elif ray.wait([waits], timeout=0)[0]:
            try:
                error = ray.get(waits)
            except FAILED as lost:
                return self._lose(slot, life, reason(lost))
            if isinstance(error, GnomonError):
                raise error
            life.seen, life.ping, life.ready = now, None, True
            self._renew(slot, life)
            self._count(slot, life)
            self._begun.set()
        elif now - life.seen > (limit := self.launch.seconds if life.ready else max(START, self.launch.seconds)):
            self._lose(slot, life, f"no answer for {limit:g} s")

    def _start(self, slot: Slot) -> None:
        actor = slot.place.actor(Sampler, self._parts, 4 + self.launch.episodes)
        slot.life = Life(actor, actor.start.remote(), time.monotonic())

    def _require_any(self) -> None:
        """Raises: ResourceError E511 if no sampler had room for too long; E512 if all have died too often."""
        now = time.monotonic()
        if any(slot.life for slot in self._slots):
            self._seen = now
        elif all(slot.deaths > self.launch.restarts for slot in self._slots):
            last = self._slots[-1]
            raise dead(f"no sampler stays alive (deaths in a row: {last.deaths})", last.why)
        elif now - self._seen > self.launch.seconds:
            raise self._slots[0].place.no_room(self.launch.seconds)


def resolve(call: Call, found: Any = None, error: BaseException | None = None) -> None:
    if call.answer.set_running_or_notify_cancel():
        call.answer.set_exception(error) if error else call.answer.set_result(found)
