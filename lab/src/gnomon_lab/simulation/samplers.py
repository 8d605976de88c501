"""Samplers in virtual time: `Dispatch` sends them episodes and `Sampler` plays these, as in a run in a Ray cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any

from gnomon.config import RunConfig
from gnomon.engines.remote import Loaded
from gnomon.keys import Key
from gnomon.models.weights import WeightsRef
from gnomon.rollout.runner import LocalRunner
from gnomon_lab.simulation.cluster import Cluster
from gnomon_lab.simulation.head import Head
from gnomon_lab.simulation.server import Speed
from gnomon_ray.dispatch import Call, Dispatch, Life
from gnomon_ray.sampler import Sampler

__all__ = ["Samplers"]

MakeRunner = Callable[[int], LocalRunner]
"""Returns the runner of an engine of the sampler with this number."""


class Simulated(Sampler):
    """A sampler whose runners only wait. Args: make: a new runner; shared: as in `run_sent`."""

    def __init__(self, config: RunConfig, make: Callable[[], LocalRunner], shared: dict[str, Any]) -> None:
        super().__init__(b"")
        self.config, self._make, self._shared = config, make, shared

    def _runner(self, number: int) -> LocalRunner:
        runner = self._runners[number] = self._make()
        return runner


@dataclass(eq=False, slots=True)
class Process:
    """One life of a sampler."""

    sampler: Sampler
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    dead: bool = False


@dataclass(frozen=True, slots=True)
class Handed:
    """Weights that each sampler asks for once."""

    weights: WeightsRef
    head: Head

    def __await__(self) -> Generator[Any, Any, WeightsRef]:
        self.head.weights += 1
        return self.weights
        yield


class Samplers:
    """A `Fleet`, and the `Processes` of its dispatch. Made inside a running loop.

    Args: speed: of the engine of each; make: as `MakeRunner`; shared: objects that every process has, by name.
    """

    def __init__(
        self, config: RunConfig, speed: Speed, key: Key, head: Head, make: MakeRunner, shared: dict[str, Any]
    ) -> None:
        self.loop, self.config, self.speed, self.head = asyncio.get_running_loop(), config, speed, head
        self._make, self._shared, launch = make, shared, config.launch
        alone = replace(speed, between_failures=inf)  # A failure ends the whole process.
        inside = Head(self.loop.time, head.aside)  # Requests within a sampler do not pass through the run's process.
        self.clusters = [Cluster(1, alone, key, inside) for _ in range(launch.samplers)]
        """The engine of every sampler, whichever process it has."""
        self._draws = [key.at("failures", server=number).random() for number in range(launch.samplers)]
        self._started = [False] * launch.samplers
        """Which had a process before."""
        self.dispatch = Dispatch(self, launch, self.loop.time)
        self._timer = self.loop.call_at(self.dispatch.due, self._tick)
        self.dispatch.tick()  # A run begins when its first sampler is ready.

    def put(self, weights: WeightsRef) -> list[Handed]:
        return [Handed(weights, self.head)]

    async def call(self, verb: str, *arguments: Any) -> Any:
        call = Call(verb, arguments)
        self.dispatch.waiting.append(call)
        self._serve()
        return await asyncio.wrap_future(call.answer)

    def renew(self, loaded: Loaded) -> None:
        self.dispatch.renew(loaded)
        self._serve()

    def placed(self, number: int) -> bool:
        return True

    def start(self, life: Life) -> None:
        again, self._started[life.slot] = self._started[life.slot], True
        with self.head.aside:
            life.process = Process(Simulated(self.config, partial(self._make, life.slot), self._shared))
        self.head.watch += 2
        if again:
            self.loop.call_later(self.speed.restart, self._ready, life)
        else:
            self._ready(life)

    def send(self, life: Life, number: int, call: Call) -> None:
        self.head.sent += 1
        self._begin(
            life, getattr(life.process.sampler, call.verb)(*call.arguments), partial(self._on_answer, life, number)
        )

    def ask(self, life: Life) -> None:
        self.head.watch += 2
        self.loop.call_soon(self._lose if life.process.dead else self._alive, life)

    def load(self, life: Life, loaded: Loaded) -> None:
        self._begin(life, life.process.sampler.load(loaded), partial(self._on_renewal, life))

    def end(self, life: Life) -> None:
        self._die(life)

    def no_room(self) -> Exception:
        raise AssertionError("there is always room")

    def _ready(self, life: Life) -> None:
        if self.speed.between_failures < inf:
            self.loop.call_later(self._draws[life.slot].expovariate(1 / self.speed.between_failures), self._fail, life)
        self.dispatch.on_start(life)
        self._serve()

    def _alive(self, life: Life) -> None:
        self.dispatch.alive(life)
        self._serve()

    def _begin(self, life: Life, work: Coroutine[Any, Any, Any], take: Callable[[asyncio.Task[Any]], None]) -> None:
        """Let a sampler work, if it has not failed. Args: take: called with the ended task."""
        process: Process = life.process
        if process.dead:
            work.close()
            self.loop.call_soon(self._lose, life)
            return
        task = self.loop.create_task(self.head.aside.time_steps(work))
        process.tasks.add(task)

        def on_end(done: asyncio.Task[Any]) -> None:
            process.tasks.discard(done)
            if not done.cancelled():
                take(done)

        task.add_done_callback(on_end)

    def _on_renewal(self, life: Life, done: asyncio.Task[Any]) -> None:
        done.result()
        self.dispatch.on_renewal(life)
        self._serve()

    def _on_answer(self, life: Life, number: int, done: asyncio.Task[Any]) -> None:
        self.head.answers += 1
        error = done.exception()
        self.dispatch.on_answer(life, number, None if error else done.result(), error)
        self._serve()

    def _fail(self, life: Life) -> None:
        """The process ends. Whoever waits for it notices now; otherwise it is noticed with the next message."""
        self._die(life)
        if life.open or life.loading:
            self._lose(life)

    def _lose(self, life: Life) -> None:
        self.head.failed += len(life.open)
        self.dispatch.on_loss(life, "a simulated failure")
        self._serve()

    def _die(self, life: Life) -> None:
        process: Process = life.process
        if not process.dead:
            process.dead = True
            with self.head.aside:
                for task in process.tasks:
                    task.cancel()
                self.clusters[life.slot].members[0].drop()

    def _serve(self) -> None:
        self.dispatch.serve()
        self.head.queue.set(len(self.dispatch.waiting))
        if self.dispatch.due < self._timer.when():
            self._timer.cancel()
            self._timer = self.loop.call_at(self.dispatch.due, self._tick)

    def _tick(self) -> None:
        try:
            self.dispatch.tick()
        except Exception as error:  # Whoever waits for a sampler has to know, as in a run.
            self.dispatch.fail(error)
        else:
            self._timer = self.loop.call_at(self.dispatch.due, self._tick)
        self._serve()
