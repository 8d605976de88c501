"""Which of many processes is the least busy, without asking each of them for every call."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

__all__ = ["LeastBusy"]

T = TypeVar("T")


class LeastBusy(Generic[T]):
    """Members by number and load. A change and a question take time in the logarithm of their count."""

    def __init__(self) -> None:
        self._members: dict[int, tuple[int, T]] = {}
        """Load and member, by number."""
        self._heap: list[tuple[int, int]] = []
        """Loads with numbers, also old ones of members whose load has changed."""

    def put(self, number: int, load: int, member: T) -> None:
        """A member is new, or has another load."""
        self._members[number] = load, member
        if len(self._heap) > 2 * len(self._members) + 64:
            self._heap = [(its, other) for other, (its, _) in self._members.items()]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (load, number))

    def remove(self, number: int) -> None:
        """A member is gone, if it was one."""
        self._members.pop(number, None)

    def least(self) -> tuple[int, T] | None:
        """Load and member with the least load; of several, that with the lowest number. None if there is none."""
        while self._heap:
            load, number = self._heap[0]
            found = self._members.get(number)
            if found is not None and found[0] == load:
                return found
            heapq.heappop(self._heap)
        return None
