"""A count that changes over time: its median and its maximum."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

__all__ = ["Gauge"]


class Gauge:
    """It begins at 0. Args: now: seconds of a clock that never goes back."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now, self.value = now, 0
        self._since = now()
        self._seconds: defaultdict[int, float] = defaultdict(float)
        """For how long it had each value."""

    def set(self, value: int) -> None:
        """It has this value from now on."""
        now = self.now()
        self._seconds[self.value] += now - self._since
        self.value, self._since = value, now

    @property
    def median(self) -> int:
        """It was at most this for half of the time until now, or longer; no smaller value has this property."""
        self.set(self.value)
        left = sum(self._seconds.values()) / 2
        for value in sorted(self._seconds):
            if (left := left - self._seconds[value]) <= 0:
                return value
        return self.value

    @property
    def most(self) -> int:
        """Its largest value, however short."""
        return max([self.value, *self._seconds])
