"""A server that only waits: it decodes rows together, fails and starts again."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from math import inf

from gnomon_lab.simulation.stopwatch import Stopwatch

__all__ = ["Failed", "Row", "Server", "Speed"]


@dataclass(frozen=True, kw_only=True)
class Speed:
    """How fast a server decodes. All its rows get a token together."""

    rows: int = 512
    """Most rows that it decodes together; further requests wait."""
    token: float = 0.02
    """Seconds of a token of all rows, beside `row`."""
    row: float = 0.0
    """Seconds that every row adds to that."""
    load: float = 0.0
    """Seconds in which it takes over new weights and decodes nothing."""
    between_failures: float = inf
    """Mean seconds between two failures, exponentially distributed. Its rows are sampled again, on any server."""
    restart: float = 60.0
    """Seconds from a failure until it decodes again."""

    def step(self, rows: int) -> float:
        """Seconds of one token of so many rows."""
        return self.token + self.row * rows


@dataclass(slots=True, eq=False)
class Row:
    """A request on a server."""

    tokens: int
    done: asyncio.Future[Server]
    began: float = 0.0
    """Tokens that a row of the server had got since its start, when this one joined."""


class Failed(Exception):
    """A server ended while it decoded."""


class Server:
    """Decodes the rows that it has at equal speed.

    Args: draws: seconds until its next failure; changed: is called when it owes more or less, or stops or goes on;
        aside: counts the processor time of its timers.
    """

    def __init__(
        self, speed: Speed, draws: Callable[[], float], changed: Callable[[Server], None], aside: Stopwatch
    ) -> None:
        self.speed, self.draws, self.changed, self.aside = speed, draws, changed, aside
        self.loop = asyncio.get_running_loop()
        self.progress = 0.0
        """Tokens that a row which was always there would have got."""
        self.marks: list[tuple[float, int]] = [(-1.0, 0)]
        """Where in `progress` the weights changed, and their version."""
        self.busy = self.row_seconds = self.waiting_seconds = 0.0
        """Seconds in which it decoded; those of each row; those of each request that waited for a row."""
        self.lost = 0.0
        """Tokens of rows that a failure ended."""
        self._rows: list[tuple[float, int, Row]] = []
        self._waiting: deque[Row] = deque()
        self._numbers, self._since, self._stopped = count(), self.loop.time(), 0
        self._timer: asyncio.TimerHandle | None = None
        self._plan_failure()

    @property
    def requests_left(self) -> int:
        """Requests that it has, and is not done with."""
        return len(self._rows) + len(self._waiting)

    @property
    def waits(self) -> int:
        """Requests that wait for a row."""
        return len(self._waiting)

    @property
    def decodes(self) -> bool:
        """Whether it is neither failed nor loading weights."""
        return not self._stopped

    async def decode(self, tokens: int) -> Row:
        """A row of so many tokens, when it is complete. Raises: Failed."""
        row = Row(tokens, self.loop.create_future())
        self._pass()
        self._waiting.append(row)
        self._go_on()
        await row.done
        return row

    def changes(self, row: Row) -> tuple[int, tuple[tuple[int, int], ...]]:
        """The version of its first token, and where it changed, as in `Completion`."""
        first = max((mark for mark in self.marks if mark[0] <= row.began), key=lambda mark: mark[0])[1]
        later = [(int(place - row.began), version) for place, version in self.marks if place > row.began]
        return first, tuple((place, version) for place, version in dict(later).items() if 0 < place < row.tokens)

    def renew(self, version: int) -> None:
        """New weights: it stops for as long as they take, and its rows go on with them."""
        self._pass()
        self.marks = [mark for mark in self.marks[-64:] if mark[0] < self.progress] + [(self.progress, version)]
        self._stop(self.speed.load)

    def _pass(self) -> None:
        """Account for the time since the last event."""
        now = self.loop.time()
        elapsed, self._since = now - self._since, now
        self.waiting_seconds += elapsed * len(self._waiting)
        if self._rows and not self._stopped:
            self.busy += elapsed
            self.row_seconds += elapsed * len(self._rows)
            self.progress += elapsed / self.speed.step(len(self._rows))

    def _go_on(self) -> None:
        """Admit what waits, and set the timer to the next row that completes."""
        while self._waiting and len(self._rows) < self.speed.rows and not self._stopped:
            row = self._waiting.popleft()
            row.began = self.progress
            heapq.heappush(self._rows, (self.progress + row.tokens, next(self._numbers), row))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._rows and not self._stopped:
            left = max(0.0, self._rows[0][0] - self.progress)
            self._timer = self.loop.call_later(left * self.speed.step(len(self._rows)), self._complete)
        self.changed(self)

    def drop(self) -> list[Row]:
        """End all its rows and what waits for one. Returns: these."""
        self._pass()
        rows = [row for _, _, row in self._rows]
        self.lost += sum(self.progress - row.began for row in rows)
        rows += self._waiting
        self._rows.clear()
        self._waiting.clear()
        self._go_on()
        return rows

    def _complete(self) -> None:
        with self.aside:
            self._pass()
            while self._rows and self._rows[0][0] <= self.progress + 1e-6:
                row = heapq.heappop(self._rows)[2]
                if not row.done.done():
                    row.done.set_result(self)
            self._go_on()

    def _stop(self, seconds: float) -> None:
        if not seconds:
            return self._go_on()
        self._stopped += 1
        self._go_on()
        self.loop.call_later(seconds, self._resume)

    def _resume(self) -> None:
        with self.aside:
            self._pass()
            self._stopped -= 1
            self._go_on()

    def _plan_failure(self) -> None:
        if self.speed.between_failures < inf:
            self.loop.call_later(self.draws(), self._fail)

    def _fail(self) -> None:
        with self.aside:
            rows = self.drop()
            self._stop(self.speed.restart)
            self._plan_failure()
            for row in rows:
                if not row.done.done():
                    row.done.set_exception(Failed())
