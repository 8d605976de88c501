"""Which of many members has the least value, without a look at each of them."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

__all__ = ["Least"]

T = TypeVar("T")


class Least(Generic[T]):
    """Members by number and value. A change and a question take time in the logarithm of their count."""

    def __init__(self) -> None:
        self._members: dict[int, tuple[float, T]] = {}
        """Value and member, by number."""
        self._heap: list[tuple[float, int]] = []
        """Values with numbers, also old ones of members whose value has changed."""

    def put(self, number: int, value: float, member: T) -> None:
        """A member is new, or has another value."""
        self._members[number] = value, member
        if len(self._heap) > 2 * len(self._members) + 64:
            self._heap = [(its, other) for other, (its, _) in self._members.items()]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (value, number))

    def remove(self, number: int) -> None:
        """A member is gone, if it was one."""
        self._members.pop(number, None)

    def least(self) -> tuple[float, T] | None:
        """The least value and its member; of several, that with the lowest number. None if there is none."""
        while self._heap:
            value, number = self._heap[0]
            found = self._members.get(number)
            if found is not None and found[0] == value:
                return found
            heapq.heappop(self._heap)
        return None
