"""Samplers as Ray actors: each has a placement group of its own, and its answers become events."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

import ray

from gnomon.config.sections import Launch
from gnomon.engines.remote import Loaded
from gnomon.errors import GnomonError
from gnomon_ray.dispatch import Call, Dispatch, Life
from gnomon_ray.places import FAILED, GONE, Place, Places, reason
from gnomon_ray.sampler import Sampler

__all__ = ["Actors"]

Event = Callable[[], None]


class Actors:
    """The `Processes` of a dispatch.

    Args: parts: as in `Sampler`; report: takes what one thread has to do, since Ray waits for ever if a callback of its
        own calls it.
    """

    dispatch: Dispatch
    """It receives what the actors answer."""

    def __init__(self, parts: bytes, launch: Launch, report: Callable[[Event], None]) -> None:
        self.launch, self._parts, self._report = launch, ray.put(parts), report
        needs = {"CPU": launch.cpus, "GPU": launch.gpus, **launch.resources}
        self.places = [Place("a sampler", needs) for _ in range(launch.samplers)]
        self._states = Places()

    def placed(self, number: int) -> bool:
        return self._states.placed(self.places[number])

    def start(self, life: Life) -> None:
        life.process = self.places[life.slot].actor(Sampler, self._parts, 4 + self.launch.episodes)
        self._then(life.process.start.remote(), partial(self._on_start, life))

    def send(self, life: Life, number: int, call: Call) -> None:
        answer = getattr(life.process, call.verb).remote(*call.arguments)
        self._then(answer, partial(self._on_answer, life, number))

    def ask(self, life: Life) -> None:
        self._then(life.process.alive.remote(), partial(self._alive, life))

    def load(self, life: Life, loaded: Loaded) -> None:
        self._then(life.process.load.remote(loaded), partial(self._on_renewal, life))

    def end(self, life: Life) -> None:
        with suppress(Exception):
            ray.kill(life.process)

    def no_room(self) -> Exception:
        return self.places[0].no_room(self.launch.seconds)

    def close(self, lives: list[Life], seconds: float) -> None:
        """End all actors and free what is reserved. Args: seconds: to end their engines."""
        with suppress(Exception):  # The cluster may be gone.
            ready = [life for life in lives if life.ready]
            ray.wait([life.process.close.remote() for life in ready], num_returns=len(ready), timeout=seconds)
        for life in lives:
            self.end(life)
        for place in self.places:
            place.remove()

    def _then(self, answer: Any, take: Callable[[Future[Any]], None]) -> None:
        answer.future().add_done_callback(lambda done: self._report(partial(take, done)))

    def _on_start(self, life: Life, done: Future[Any]) -> None:
        if self._living(life, done):
            self.dispatch.on_start(life)

    def _alive(self, life: Life, done: Future[Any]) -> None:
        if self._living(life, done):
            self.dispatch.alive(life)

    def _on_renewal(self, life: Life, done: Future[Any]) -> None:
        if self._living(life, done):
            self.dispatch.on_renewal(life)

    def _living(self, life: Life, done: Future[Any]) -> bool:
        """Whether a process answered and did not die. Raises: what it answered, if that is an error."""
        try:
            found = done.result()
        except FAILED as error:
            self.dispatch.on_loss(life, reason(error))
            return False
        if isinstance(found, GnomonError):
            raise found
        return True

    def _on_answer(self, life: Life, number: int, done: Future[Any]) -> None:
        error = done.exception()
        if isinstance(error, GONE):
            self.dispatch.on_loss(life, str(error))
        else:
            self.dispatch.on_answer(life, number, None if error else done.result(), error)
