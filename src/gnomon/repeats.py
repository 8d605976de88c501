"""What is done when work in another process fails: one policy for workers, sandboxes, engines, clusters and servers.

- Restart: a process that ended, or gave no sign of life within its limit of time, is replaced by a new one.
- Repeat: its work without an answer is done again unchanged, so whoever waits for an answer does not see the failure.
- Give up: the limit counts failures in a row. An answer ends the row. Beyond the limit the last reason is reported.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

__all__ = ["Repeats"]

PAUSE = 2.0
"""Seconds before a start after the second failure in a row; they double with each."""


@dataclass(slots=True, eq=False)
class Repeats:
    """Failures in a row, of a process or of one piece of work."""

    allowed: float
    """Failures in a row after which there is another try."""
    seconds: float = math.inf
    """Time without a sign of life within which there is another try."""
    count: int = 0
    """Failures in a row."""
    why: str = ""
    """Reason of the last failure."""
    alive: float = field(default_factory=time.monotonic)
    """Time of the last sign of life."""

    def another(self, why: str = "") -> bool:
        """Whether there is another try after this failure. Counts the failure."""
        self.count, self.why = self.count + 1, why
        return not self.exhausted and time.monotonic() - self.alive <= self.seconds

    def on_answer(self) -> None:
        """There was an answer, which ends the row."""
        self.count, self.alive = 0, time.monotonic()

    @property
    def exhausted(self) -> bool:
        return self.count > self.allowed

    @property
    def pause(self) -> float:
        """Seconds before the next start: none after a first failure. A dead machine may hold a place for some time."""
        return PAUSE * 2.0 ** (self.count - 2) if self.count > 1 else 0.0
