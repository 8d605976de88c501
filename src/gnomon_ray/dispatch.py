"""Calls for any of many processes: each goes to the least busy one, and to another one if its process dies.

Nothing here knows Ray, a thread or a clock. Its user reports every answer and every death, and calls `tick` when
something is due. So the samplers of a cluster and those of a simulation are served by the same code. An event takes
time in the logarithm of the number of processes.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from math import inf
from typing import Any, Protocol

from gnomon.config.sections import Launch
from gnomon.engines.remote import Loaded
from gnomon.errors import GnomonError
from gnomon.repeats import Repeats
from gnomon.run.losses import SamplerLoss
from gnomon_ray.deaths import PING, START, dead
from gnomon_ray.least import Least

__all__ = ["TICK", "Call", "Dispatch", "Life", "Processes"]

TICK = 0.1
"""Least seconds between two checks of a place without a process."""
CHECKS = 1000
"""Most checks of places without a process per second, over all of them."""
QUESTIONS = 100
"""Questions per second whether processes still answer, over all of them, as long as each is asked ten times within the
time after which it counts as hung."""


@dataclass(eq=False, slots=True)
class Call:
    """A call that any process may answer."""

    verb: str
    arguments: tuple[Any, ...]
    answer: Future[Any] = field(default_factory=Future)
    repeats: Repeats | None = None
    """Deaths of processes that had it."""


@dataclass(eq=False, slots=True)
class Life:
    """One process, from its start to its end."""

    slot: int
    """Number of its place."""
    since: float
    """Time of its last answer, or of the first question after it."""
    process: Any = None
    """What `Processes` needs to reach it."""
    ready: bool = False
    asked: bool = False
    """Whether it has not yet answered that it is alive."""
    sent: Loaded | None = None
    """The last weights that it was sent in flight."""
    loading: bool = False
    """Whether it has not taken them over yet."""
    open: dict[int, Call] = field(default_factory=dict)
    """Calls without an answer, by a number, in the order in which they were sent."""


class Processes(Protocol):
    """What starts, reaches and ends processes. The answers are reported to `Dispatch`."""

    def placed(self, number: int) -> bool:
        """Whether there is room for the process with this number."""
        ...

    def start(self, life: Life) -> None:
        """Begin a process. `on_start` or `on_loss` is called when it is ready or has died."""
        ...

    def send(self, life: Life, number: int, call: Call) -> None:
        """Send a call. `on_answer` or `on_loss` is called with its answer or the death of its process."""
        ...

    def ask(self, life: Life) -> None:
        """Ask whether it still answers. `alive` or `on_loss` is called then."""
        ...

    def load(self, life: Life, loaded: Loaded) -> None:
        """Send weights that it takes over while it samples. `on_renewal` or `on_loss` is called then."""
        ...

    def end(self, life: Life) -> None:
        """Kill a process, if it still lives."""
        ...

    def no_room(self) -> Exception:
        """The error where there is no room for any process."""
        ...


@dataclass(eq=False, slots=True)
class Slot:
    """The place of a process, whichever it is."""

    number: int
    repeats: Repeats
    """Deaths of its processes."""
    life: Life | None = None
    after: float = 0.0
    """Time of its next start."""


class Dispatch:
    """Args: launch: the number of processes and their limits; now: seconds of a clock that never goes back."""

    def __init__(self, processes: Processes, launch: Launch, now: Callable[[], float]) -> None:
        self.processes, self.launch, self.now = processes, launch, now
        self.waiting: deque[Call] = deque()
        """Calls that no process has, in the order in which they are sent."""
        self.losses: deque[SamplerLoss] = deque()
        self.newest: Loaded | None = None
        """Weights that every process takes over while it samples."""
        self.error: Exception | None = None
        """What ended all processes."""
        self.begun = False
        """Whether a process has been ready."""
        self._quiet = max(PING, min(launch.seconds / 10, launch.samplers / QUESTIONS))
        """Seconds without an answer after which a process is asked whether it is alive."""
        self._numbers, self._living, self._seen = itertools.count(), 0, now()
        """Number of the next call; count of processes; when there was one."""
        self._least: Least[Life] = Least()
        """Processes that are ready, by their open calls."""
        self._due: Least[Slot] = Least()
        """When to look at each place."""
        self._slots = [Slot(number, Repeats(launch.restarts)) for number in range(launch.samplers)]
        for slot in self._slots:
            self._due.put(slot.number, self._seen + slot.number / CHECKS, slot)

    @property
    def due(self) -> float:
        """When to call `tick`."""
        found = self._due.least()
        return found[0] if found else inf

    @property
    def lives(self) -> list[Life]:
        """The processes."""
        return [slot.life for slot in self._slots if slot.life]

    def serve(self) -> None:
        """Send calls that wait, in order, each to the least busy process."""
        while self.waiting:
            if self.error:
                resolve(self.waiting.popleft(), error=self.error)
                continue
            found = self._least.least()
            if found is None or found[0] >= self.launch.episodes:
                return
            life, call = found[1], self.waiting.popleft()
            if not call.answer.cancelled():
                number = next(self._numbers)
                life.open[number] = call
                self._count(life)
                self.processes.send(life, number, call)

    def on_start(self, life: Life) -> None:
        """A process is ready for calls."""
        if self._slots[life.slot].life is not life:
            return
        life.since, life.ready, self.begun = self.now(), True, True
        self._renew(life)
        self._count(life)
        self._check_at(life, life.since + self._quiet)

    def alive(self, life: Life) -> None:
        """A process answered that it is alive."""
        life.since, life.asked = self.now(), False
        self._check_at(life, life.since + self._quiet)

    def renew(self, loaded: Loaded) -> None:
        """Have every process take over these weights while it samples, and every later one when it starts."""
        self.newest = loaded
        for life in self.lives:
            if life.ready:
                self._renew(life)

    def on_renewal(self, life: Life) -> None:
        """A process has taken over the weights that it was sent."""
        life.loading, life.since = False, self.now()
        if self._slots[life.slot].life is life:
            self._renew(life)

    def on_answer(self, life: Life, number: int, found: Any = None, error: BaseException | None = None) -> None:
        """A call has an answer. Args: number: as it was sent."""
        if call := life.open.pop(number, None):  # Else it was sent to another process.
            self._slots[life.slot].repeats.on_answer()
            life.since = self.now()
            self._count(life)
            resolve(call, found, found if isinstance(found, GnomonError) else error)

    def on_loss(self, life: Life, why: str) -> None:
        """A process is no more. Its calls are sent again before any other."""
        slot = self._slots[life.slot]
        if slot.life is not life:
            return
        slot.life = None
        slot.repeats.another(why)
        self._living -= 1
        self._least.remove(slot.number)
        slot.after = self.now() + slot.repeats.pause
        self._due.put(slot.number, max(slot.after, self.now() + TICK), slot)
        self.processes.end(life)
        self.losses.append(SamplerLoss(sampler=slot.number, why=why, episodes=len(life.open)))
        for call in reversed(life.open.values()):
            repeats = call.repeats = call.repeats or Repeats(self.launch.restarts)
            if repeats.another(why):
                self.waiting.appendleft(call)
                continue
            times = "once" if repeats.count == 1 else f"{repeats.count} times"
            resolve(call, error=dead(f"a sampler died {times} with the same call ({call.verb})", why))
        life.open.clear()

    def fail(self, error: Exception) -> None:
        """End everything: whoever waits for an answer has to know."""
        self.error = error
        for life in self.lives:
            self.waiting.extend(life.open.values())
            life.open.clear()

    def forgive(self, seconds: float) -> None:
        """This process was stopped or had no processor, so for these seconds it could receive no answer."""
        for life in self.lives:
            life.since = min(self.now(), life.since + seconds)

    def tick(self) -> None:
        """Start and ask the processes for which it is time, and count those as lost that did not answer.

        Raises: ResourceError E511 if no process had room for too long; E512 if all have died too often.
        """
        while (found := self._due.least()) and found[0] <= self.now():
            self._check(found[1])
        if self._living:
            self._seen = self.now()
        elif all(slot.repeats.exhausted for slot in self._slots):
            last = self._slots[-1].repeats
            raise dead(f"no sampler stays alive (deaths in a row: {last.count})", last.why)
        elif self.now() - self._seen > self.launch.seconds:
            raise self.processes.no_room()

    def _check(self, slot: Slot) -> None:
        """Do what is due for a place, and note when to look at it again."""
        life, now = slot.life, self.now()
        if life is None:
            if not self.processes.placed(slot.number):
                slot.repeats.on_answer()  # When there is room again, it is on another node.
            elif not slot.repeats.exhausted and now >= slot.after:
                return self._start(slot)
            empty = len(self._slots) - self._living
            self._due.put(slot.number, now + max(TICK, empty / CHECKS), slot)
        elif life.ready and not life.asked:
            if now >= life.since + self._quiet:
                life.since, life.asked = now, True
                self.processes.ask(life)
            self._check_at(life, life.since + (self._limit(life) if life.asked else self._quiet))
        elif now >= life.since + self._limit(life):
            self.on_loss(life, f"no answer for {self._limit(life):g} s")
        else:
            self._check_at(life, life.since + self._limit(life))

    def _start(self, slot: Slot) -> None:
        life = slot.life = Life(slot.number, self.now())
        self._living += 1
        self._check_at(life, life.since + self._limit(life))
        self.processes.start(life)

    def _renew(self, life: Life) -> None:
        """Send a process the newest weights, unless it has them or still loads others."""
        if self.newest and not life.loading and life.sent is not self.newest:
            life.sent, life.loading = self.newest, True
            self.processes.load(life, self.newest)

    def _limit(self, life: Life) -> float:
        """Seconds without an answer after which it counts as hung."""
        return self.launch.seconds if life.ready else max(START, self.launch.seconds)

    def _check_at(self, life: Life, when: float) -> None:
        """Note when to look at a process, if it is still that of its place."""
        slot = self._slots[life.slot]
        if slot.life is life:
            self._due.put(slot.number, when, slot)

    def _count(self, life: Life) -> None:
        """Note how many calls a process has, if it is still that of its place."""
        if self._slots[life.slot].life is life:
            self._least.put(life.slot, len(life.open), life)


def resolve(call: Call, found: Any = None, error: BaseException | None = None) -> None:
    if call.answer.set_running_or_notify_cancel():
        call.answer.set_exception(error) if error else call.answer.set_result(found)
