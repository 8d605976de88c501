"""Replies that all episodes of a call ask for together."""

from __future__ import annotations

import asyncio

__all__ = ["Rounds"]


class Rounds:
    """A round of replies begins when every unfinished episode asks for one.

    So which requests an engine gets together, and in which order, follows from the episodes and not from the clock.

    Args:
        episodes: that are played, each until it leaves.
        room: largest number of them at once; the others begin in order as these end.
    """

    def __init__(self, episodes: int, room: int) -> None:
        self._unfinished, self._room = episodes, room
        self._asking: list[tuple[bytes, asyncio.Future[None]]] = []

    async def join(self, key: bytes) -> None:
        """Wait until the next round begins. Args: key: of the request; a round's requests are made in its order."""
        loop = asyncio.get_running_loop()
        begins: asyncio.Future[None] = loop.create_future()
        self._asking.append((key, begins))
        loop.call_soon(self._begin)  # So that this one waits in any case, and does not overtake the others.
        await begins

    def leave(self) -> None:
        """An episode asks for no further reply."""
        self._unfinished -= 1
        self._begin()

    def _begin(self) -> None:
        if len(self._asking) < min(self._unfinished, self._room):
            return
        asking, self._asking = sorted(self._asking, key=lambda each: each[0]), []
        for _, begins in asking:
            if not begins.done():  # It was cancelled.
                begins.set_result(None)
